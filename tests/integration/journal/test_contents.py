"""Contents that are still needed, and what is left of deleted checkpoints, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from kagura_kernel.domain.events import ChangesCollected, ChangesSettled
from kagura_kernel.domain.patterns import Checkpoint, Step
from kagura_kernel.journal.checkpoints import forget_checkpoints, naming, needed, store
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
WORD = "quokkazanzibar"


def stood(run_id: str, memories: tuple[str, ...], *hashes: str) -> Checkpoint:
    changes = tuple({"path": f"{one}.md", "status": "added", "new_sha256": one} for one in hashes)
    done = (Step("call-1", "recall", {}, WORD),)
    return Checkpoint(run_id, "ses-1", 1, AT, "Go on.", done, memories=memories, changes=changes)


def collected(journal: Journal, run_id: str, *hashes: str) -> None:
    journal.append(SampleRun(run_id).started())
    rows = [{"path": f"{one}.md", "status": "added", "new_sha256": one} for one in hashes]
    journal.append(ChangesCollected(run_id=run_id, session_id="ses-1", at=AT, changes=rows))


def test_a_checkpoint_or_an_open_decision_needs_a_content_and_nothing_else_does(journal):
    store(journal, stood("run-1", (), "a" * 64))
    collected(journal, "run-2", "b" * 64, "c" * 64, "d" * 64)
    settled = ChangesSettled(
        run_id="run-2", session_id="ses-1", at=AT, applied=(f"{'b' * 64}.md",), discarded=(f"{'c' * 64}.md",)
    )
    journal.append(settled)
    assert needed(journal, [one * 64 for one in "abcde"]) == {"a" * 64, "d" * 64}
    assert needed(journal, []) == frozenset()


def test_checkpoints_are_found_by_the_memories_that_they_name(journal):
    store(journal, stood("run-1", ("mem-a", "mem-b")))
    store(journal, stood("run-2", ("mem-ab",)))
    assert [one.run_id for one in naming(journal, ["mem-b", "mem-a"])] == ["run-1"]
    assert naming(journal, ["mem"]) == []
    assert naming(journal, []) == []
    assert len(naming(journal, [f"mem-{number}" for number in range(300)] + ["mem-ab"])) == 1


def test_what_was_deleted_is_off_the_disk_while_others_have_the_journal_open(journal, open_journal, where):
    store(journal, stood("run-1", ("mem-a",)))
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
