"""Where runs stood, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.domain.patterns import Checkpoint, LeftBudget, Step
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
    newest_of_session,
    store,
)
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


def test_the_newest_of_a_session_is_the_one_that_was_stored_last(journal):
    store(journal, stood("run-1", 5))
    store(journal, stood("run-2", 1, at=AT + timedelta(hours=1)))
    store(journal, stood("run-3", 9, session_id="ses-2", at=AT + timedelta(hours=2)))
    found = newest_of_session(journal, "ses-1")
    assert found is not None
    assert found.run_id == "run-2"
    assert newest_of_session(journal, "ses-3") is None


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
