"""Where runs stood, on SQLite and on PostgreSQL."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.domain.events import ChangesCollected, ChangesSettled
from kagura_kernel.domain.patterns import Checkpoint, LeftBudget, Step
from kagura_kernel.journal import schema, views
from kagura_kernel.journal.checkpoints import (
    KEPT_DAYS,
    KEPT_EVERY,
    KEPT_FARTHEST,
    KEPT_LAST,
    drop_old,
    forget_checkpoints,
    history,
    latest,
    named_contents,
    naming,
    needed,
    store,
)
from kagura_kernel.journal.pages import one_run
from kagura_kernel.journal.schema import KNOWN_VERSION
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)


def stood(run_id: str = "run-1", step: int = 1, **more: object) -> Checkpoint:
    fields = {"session_id": "ses-1", "at": AT + timedelta(seconds=step), "task": "Mend it."} | more
    return Checkpoint(run_id=run_id, step=step, **fields)  # type: ignore[arg-type]


def whole() -> Checkpoint:
    return stood(
        done=(Step("call-1", "bash", {"command": "make", "timeout": 5}, "ok", outside=True, run_id="run-1", number=1),),
        begun=(Step("call-2", "bash", {"command": "deploy"}),),
        pending=("deploy",),
        plan=("build", "deploy"),
        changes=({"path": "odd-\udce4.txt", "status": "added", "new_sha256": "ab" * 32, "mode": 0o755},),
        collected=1,
        budget_usd=1.0,
        spent_usd=0.25,
        budgets=(LeftBudget("github:read", 600.0, 2),),
        grants=("pypi", "github:read"),
        memories=("mem-a", "mem-b"),
        brain="claude",
        brain_session="0a$0.1",
        untrusted=True,
        options={"agent": "", "net": ["pypi"], "image": None},
    )


def test_a_checkpoint_comes_back_as_it_was_in_another_process(journal, open_journal):
    store(journal, whole())
    assert latest(open_journal(), "run-1") == whole()
    assert latest(journal, "run-2") is None


def test_a_later_one_at_the_same_step_takes_the_place_of_the_earlier(journal):
    store(journal, stood(step=0))
    store(journal, stood(step=1))
    store(journal, stood(step=1, plan=("look again",)))
    assert [(one.step, one.plan) for one in history(journal, "run-1")] == [(0, ()), (1, ("look again",))]


def test_the_history_of_a_long_run_is_kept_in_part(journal):
    last = KEPT_FARTHEST + 2 * KEPT_LAST
    for step in range(last + 1):
        store(journal, stood(step=step))
    steps = [one.step for one in history(journal, "run-1")]
    newest = list(range(last - KEPT_LAST + 1, last + 1))
    assert steps[-KEPT_LAST:] == newest
    older = steps[:-KEPT_LAST]
    assert older
    assert all(step % KEPT_EVERY == 0 and step > last - KEPT_FARTHEST for step in older)


def test_what_grew_from_a_memory_is_erased_and_the_conversation_with_it(journal):
    store(journal, stood(step=1, brain_session="says-it"))
    store(journal, stood(step=2, memories=("mem-a",), brain_session="says-it"))
    store(journal, stood(step=3, memories=("mem-a", "mem-b"), brain_session="says-it"))
    store(journal, stood("run-2", 1, memories=("mem-abc", "mem_a"), brain_session="another"))
    assert forget_checkpoints(journal, ["mem-a", "mem-x"]) == (2, ("run-1",))
    [left] = history(journal, "run-1")
    assert (left.step, left.brain_session) == (1, "")
    assert [one.brain_session for one in history(journal, "run-2")] == ["another"]
    assert forget_checkpoints(journal, []) == (0, ())


def test_an_id_is_no_pattern(journal):
    store(journal, stood(memories=("mem-ab",)))
    assert forget_checkpoints(journal, ["mem-a%", "mem-a_", "%"]) == (0, ())


def test_of_many_memories_each_is_looked_for(journal):
    for number in range(250):
        store(journal, stood(f"run-{number}", 1, memories=(f"mem-{number}",)))
    gone, affected = forget_checkpoints(journal, [f"mem-{number}" for number in range(250)])
    assert (gone, len(affected)) == (250, 250)


def test_runs_that_ended_well_and_old_ones_are_dropped_and_others_stay(journal):
    now = journal.clock.now()
    for name, status, verified in (
        ("well", "done", None),
        ("proved", "done", True),
        ("refuted", "done", False),
        ("killed", "killed", None),
    ):
        told = SampleRun(name, "ses-1", now)
        journal.append(told.started())
        journal.append(told.finished(status=status, verified=verified))
        store(journal, stood(name, 1, at=now))
    store(journal, stood("old", 1, at=now - timedelta(days=KEPT_DAYS + 1)))
    store(journal, stood("going", 1, at=now))
    assert drop_old(journal) == 3
    assert [name for name in ("well", "proved", "refuted", "killed", "old", "going") if latest(journal, name)] == [
        "refuted",
        "killed",
        "going",
    ]
    assert drop_old(journal) == 0


def test_contents_that_some_checkpoint_needs_are_named(journal):
    store(journal, whole())
    store(journal, stood("run-2", 1, changes=({"path": "gone", "status": "deleted", "new_sha256": ""},)))
    assert named_contents(journal) == {"ab" * 32}


def test_what_a_newer_version_has_added_is_left_out(journal):
    store(journal, stood())
    with journal.writing() as writing:
        writing.connection.execute(
            text("UPDATE journal_checkpoints SET body = replace(body, :old, :new)"),
            {"old": '"step"', "new": '"later": 1, "step"'},
        )
    assert latest(journal, "run-1") == stood()


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"run_id": 1}', '{"run_id": "run-1", "at": "yesterday"}'])
def test_a_broken_one_is_said_to_be_broken(journal, body):
    store(journal, stood())
    with journal.writing() as writing:
        writing.connection.execute(text("UPDATE journal_checkpoints SET body = :body"), {"body": body})
    with pytest.raises(JournalUnreadable, match="run-1 at step 1"):
        latest(journal, "run-1")


def test_the_rows_of_the_journal_still_verify(journal):
    journal.append(SampleRun("run-1", "ses-1", AT).started())
    store(journal, replace(whole(), step=2))
    forget_checkpoints(journal, ["mem-a"])
    assert journal.verify().rows == 1


WORD = "quokkazanzibar"


def stood_of_contents(run_id: str, memories: tuple[str, ...], *hashes: str) -> Checkpoint:
    changes = tuple({"path": f"{one}.md", "status": "added", "new_sha256": one} for one in hashes)
    done = (Step("call-1", "recall", {}, WORD),)
    return Checkpoint(run_id, "ses-1", 1, AT, "Go on.", done, memories=memories, changes=changes)


def collected(journal: Journal, run_id: str, *hashes: str) -> None:
    journal.append(SampleRun(run_id).started())
    rows = [{"path": f"{one}.md", "status": "added", "new_sha256": one} for one in hashes]
    journal.append(ChangesCollected(run_id=run_id, session_id="ses-1", at=AT, changes=rows))


def test_a_checkpoint_or_an_open_decision_needs_a_content_and_nothing_else_does(journal):
    store(journal, stood_of_contents("run-1", (), "a" * 64))
    collected(journal, "run-2", "b" * 64, "c" * 64, "d" * 64)
    settled = ChangesSettled(
        run_id="run-2", session_id="ses-1", at=AT, applied=(f"{'b' * 64}.md",), discarded=(f"{'c' * 64}.md",)
    )
    journal.append(settled)
    assert needed(journal, [one * 64 for one in "abcde"]) == {"a" * 64, "d" * 64}
    assert needed(journal, []) == frozenset()
    many = [f"{number:064x}" for number in range(2000)]
    assert needed(journal, [*many, "d" * 64]) == {"d" * 64}


def test_checkpoints_are_found_by_the_memories_that_they_name(journal):
    store(journal, stood_of_contents("run-1", ("mem-a", "mem-b")))
    store(journal, stood_of_contents("run-2", ("mem-ab",)))
    assert [one.run_id for one in naming(journal, ["mem-b", "mem-a"])] == ["run-1"]
    assert naming(journal, ["mem"]) == []
    assert naming(journal, []) == []
    assert len(naming(journal, [f"mem-{number}" for number in range(300)] + ["mem-ab"])) == 1


def test_what_was_deleted_is_off_the_disk_while_others_have_the_journal_open(journal, open_journal, where):
    store(journal, stood_of_contents("run-1", ("mem-a",)))
    other = open_journal()
    assert other.last_seq() == 0
    assert forget_checkpoints(journal, ["mem-a"]) == (1, ("run-1",))
    journal.scour()
    if not where.startswith("postgresql"):
        files = [path for path in Path(where).iterdir() if path.is_file()]
        assert [path.name for path in files if WORD.encode() in path.read_bytes()] == []
    journal.append(SampleRun().started())
    assert other.last_seq() == 1
    journal.verify()


STEP = 3
LAST = 7
INDEXES = (
    "journal_runs_notebook",
    "journal_runs_started",
    "journal_approvals_asked",
    "journal_events_leases",
    "journal_events_plugins",
    "journal_events_learned",
)
COLUMNS = ("notebook", "kernel_id", "cell_id", "budget_usd")
LATER = ("lineage", "resumes", "estimated_usd", "estimated_seconds", "verified", "untrusted")


def make_old(journal: Journal) -> None:
    """Take back what the step has done, and everything behind it."""
    assert KNOWN_VERSION == LAST, "a further step needs its own way back here"
    with journal.writing() as writing:
        for name in INDEXES:
            writing.connection.execute(text(f"DROP INDEX {name}"))
        for name in ("checkpoints", "claims", "heard", "posts"):
            writing.connection.execute(text(f"DROP TABLE journal_{name}"))
        writing.connection.execute(text("ALTER TABLE journal_approvals DROP COLUMN lineage"))
        for name in (*COLUMNS, *LATER):
            writing.connection.execute(text(f"ALTER TABLE journal_runs DROP COLUMN {name}"))
        writing.connection.execute(text(f"DELETE FROM journal_version WHERE version >= {STEP}"))
    journal.close()


def test_an_old_journal_knows_its_places_afterwards_and_verifies(open_journal, monkeypatch):
    monkeypatch.setattr(schema, "_CHUNK", 2)
    journal = open_journal()
    place = {"notebook": "odd \udcff\x00.ipynb", "kernel_id": "k-1", "cell_id": "c-1"}
    journal.append(SampleRun("run-0").finished())
    journal.append(SampleRun("run-1").started(budget_usd=2.5, **place))
    for number in range(2, 7):
        journal.append(SampleRun(f"run-{number}").started(budget_usd=number / 2))
    journal.append(SampleRun("run-1").finished())
    before = views.runs(journal)
    make_old(journal)

    again = open_journal()
    assert views.runs(again) == before
    row = one_run(again, "run-1")
    assert (row.notebook, row.kernel_id, row.budget_usd) == ("odd \\udcff\\x00.ipynb", "k-1", 2.5)
    assert one_run(again, "run-0").budget_usd is None
    assert again.verify().rows == 8
    views.rebuild(again)
    assert views.runs(again) == before


@pytest.mark.parametrize("body", ["nothing", "[]", '"text"', '{"budget_usd": "much", "notebook": 7}'])
def test_a_row_that_is_no_event_is_left_to_verify(where, open_journal, body):
    journal = open_journal()
    journal.append(SampleRun("run-1").started())
    journal.append(SampleRun("run-2").started(notebook="n.ipynb"))
    with journal.writing() as writing:
        writing.connection.execute(text("UPDATE journal_events SET body = :body WHERE seq = 1"), {"body": body})
    make_old(journal)
    # Nothing can be run on it any more, and still it can be read.
    with closing(Journal.open(where, create=False)) as again:
        _no_event_is_left(again)


def _no_event_is_left(again: Journal) -> None:
    assert one_run(again, "run-1").notebook == ""
    assert one_run(again, "run-2").notebook == "n.ipynb"
