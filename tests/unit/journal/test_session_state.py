"""What a session has left open is read from the journal, which no agent writes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.events import MemoryWritten, RunFinished, RunStarted
from kagura_kernel.domain.patterns import Checkpoint
from kagura_kernel.journal import checkpoints
from kagura_kernel.journal.session_registry import last_run, read_untrusted
from kagura_kernel.journal.store import Journal

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with_rows = Journal.open(tmp_path)
    yield with_rows
    with_rows.close()


def begin(journal, run_id, *, session="ses-1", brain="fake"):
    fields = {"task": "Do it.", "flavour": "agent" if brain else "sandbox", "brain": brain, "project": "/p"}
    journal.append(RunStarted(run_id=run_id, session_id=session, at=NOW, **fields))


def end(journal, run_id, *, session="ses-1", status="done", **more: Any):
    journal.append(RunFinished(run_id=run_id, session_id=session, at=NOW, status=status, duration=5.0, **more))


def wrote(journal, run_id, memory_id, *, how="outcome", kind="outcome"):
    fields = {"memory_id": memory_id, "type": kind, "tier": "quarantine", "author": "engine", "how": how}
    journal.append(MemoryWritten(run_id=run_id, session_id="ses-1", at=NOW, **fields))


def test_a_session_without_a_run_has_none(journal):
    begin(journal, "run-1", session="ses-2")
    end(journal, "run-1", session="ses-2")
    assert last_run(journal, "ses-1") is None


def test_the_last_run_is_told_with_what_it_left(journal):
    begin(journal, "run-1")
    end(journal, "run-1")
    begin(journal, "run-2")
    wrote(journal, "run-2", "mem-note", how="asked", kind="note")
    wrote(journal, "run-2", "mem-outcome")
    wrote(journal, "run-2", "mem-words", kind="note")
    wrote(journal, "run-2", "mem-lesson", how="lesson", kind="lesson")
    end(journal, "run-2", changed_files=3, verified=True)
    found = last_run(journal, "ses-1")
    assert found is not None
    assert (found.run_id, found.status, found.changed_files, found.verified) == ("run-2", "done", 3, True)
    assert (found.outcome, found.pending) == ("mem-outcome", None)
    assert found.ended_at == NOW + timedelta(seconds=5)


def test_a_run_that_goes_on_and_a_cell_of_code_are_not_the_last_one(journal):
    begin(journal, "run-1")
    end(journal, "run-1", status="failed")
    begin(journal, "run-2", brain="")
    end(journal, "run-2")
    begin(journal, "run-3")
    found = last_run(journal, "ses-1")
    assert found is not None
    assert (found.run_id, found.outcome, found.verified) == ("run-1", "", None)


@pytest.mark.parametrize(("status", "left"), [("killed", 2), ("done", None)])
def test_of_a_run_that_did_not_end_well_it_says_how_much_of_its_plan_is_left(journal, status, left):
    begin(journal, "run-1")
    plan = ("one", "two", "three")
    checkpoints.store(journal, Checkpoint("run-1", "ses-1", 1, NOW, "Do it.", plan=plan, pending=plan[1:]))
    end(journal, "run-1", status=status)
    found = last_run(journal, "ses-1")
    assert found is not None
    assert found.pending == left


def test_a_brain_session_stays_marked_in_its_own_session(journal):
    begin(journal, "run-1")
    end(journal, "run-1", brain_session="talk-1", untrusted=True)
    begin(journal, "run-2")
    end(journal, "run-2", brain_session="talk-2")
    assert read_untrusted(journal, "ses-1", "talk-1", "fake")
    assert not read_untrusted(journal, "ses-1", "talk-2", "fake")
    assert not read_untrusted(journal, "ses-2", "talk-1", "fake")


@pytest.mark.parametrize("status", ["killed", "failed", "lost"])
def test_a_run_that_was_cut_marks_the_conversation_that_it_went_on_with(journal, status):
    begin(journal, "run-1")
    end(journal, "run-1", brain_session="talk-1$0.5")
    begin(journal, "run-2")
    end(journal, "run-2", status=status, untrusted=True)
    begin(journal, "run-3", brain="other")
    end(journal, "run-3", brain_session="talk-3$0.5")
    assert read_untrusted(journal, "ses-1", "talk-1$0.5", "fake")
    assert not read_untrusted(journal, "ses-1", "talk-3$0.5", "other")


def test_each_word_of_a_marked_conversation_is_marked(journal):
    begin(journal, "run-1")
    end(journal, "run-1", brain_session="talk-1$0.5", untrusted=True)
    begin(journal, "run-2")
    end(journal, "run-2", brain_session="talk-1$0.75")
    assert read_untrusted(journal, "ses-1", "talk-1$0.75", "fake")


@pytest.mark.parametrize("status", ["denied", "killed", "lost"])
def test_a_run_that_never_began_hides_nothing_of_what_its_session_had_done(journal, status):
    begin(journal, "run-0")
    end(journal, "run-0", status=status)
    assert last_run(journal, "ses-1") is None
    begin(journal, "run-1")
    wrote(journal, "run-1", "mem-outcome")
    end(journal, "run-1", status=status)
    begin(journal, "run-2")
    end(journal, "run-2", status=status)
    found = last_run(journal, "ses-1")
    assert found is not None
    assert (found.run_id, found.outcome) == ("run-1", "mem-outcome")
    begin(journal, "run-3")
    end(journal, "run-3", status="failed", error_code="ERR_SESSION_BUSY")
    assert last_run(journal, "ses-1") == found
    begin(journal, "run-4")
    end(journal, "run-4", status=status, turns=1)
    assert last_run(journal, "ses-1").run_id == "run-4"
