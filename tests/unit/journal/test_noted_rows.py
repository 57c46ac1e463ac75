"""Up to which row a journal held is noted, and only what came after it is checked again."""

import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from kagura_kernel.domain.errors import JournalTampered
from kagura_kernel.journal.noted_rows import FILE, note_row, noted_row
from kagura_kernel.journal.rows import NOTHING
from kagura_kernel.journal.settings_text import replace_file
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

HUGE = f'{{"%s": {{"seq": {2**63}, "hash": "", "at": ""}}}}'
NOW = datetime(2026, 1, 2, tzinfo=UTC)
FIRST, SECOND = SampleRun(run_id="run-1"), SampleRun(run_id="run-2")


@pytest.fixture
def journal(tmp_path: Path):
    found = Journal.open(tmp_path)
    for event in (FIRST.started(), FIRST.counted(), SECOND.started(), SECOND.counted(), FIRST.finished()):
        found.append(event)
    note_row(tmp_path, found.verify(), NOW)
    yield found
    found.close()


def edit(journal: Journal, statement: str) -> None:
    with journal.writing() as writing:
        writing.connection.execute(text(statement))


def noted(journal: Journal, home: Path):
    return noted_row(home, journal.where)


def test_what_was_written_since_is_checked_with_the_tables_of_its_runs(journal: Journal, tmp_path: Path) -> None:
    journal.append(SECOND.counted())
    checked = journal.verify(noted=noted(journal, tmp_path))
    assert (checked.rows, checked.since) == (6, 5)
    edit(journal, "UPDATE journal_runs SET turns = 9 WHERE run_id = 'run-2'")
    with pytest.raises(JournalTampered, match="turns"):
        journal.verify(noted=noted(journal, tmp_path))


def test_a_changed_row_is_found_before_the_noted_one_by_a_full_look_alone(journal: Journal, tmp_path: Path) -> None:
    edit(journal, "UPDATE journal_events SET body = '{}' WHERE seq = 2")
    assert journal.verify(noted=noted(journal, tmp_path)).rows == 5
    with pytest.raises(JournalTampered, match="row 2"):
        journal.verify()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal_events SET hash = 'other' WHERE seq = 5",
        "DELETE FROM journal_events WHERE seq = 5",
        "UPDATE journal_head SET rows = 4",
        "UPDATE journal_events SET seq = 6 WHERE seq = 5",
    ],
)
def test_the_noted_row_and_the_end_have_to_be_as_they_were(journal: Journal, tmp_path: Path, statement: str) -> None:
    edit(journal, statement)
    with pytest.raises(JournalTampered):
        journal.verify(noted=noted(journal, tmp_path))


def test_a_journal_in_the_place_of_another_is_told(journal: Journal, tmp_path: Path) -> None:
    other = Journal.open(tmp_path / "other")
    other.append(FIRST.started())
    with pytest.raises(JournalTampered, match="checked before"):
        other.verify(noted=noted(journal, tmp_path))
    other.close()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"%s": {"seq": "5", "hash": 1, "at": ""}}', HUGE, "[" * 99999])
def test_a_note_that_cannot_be_read_costs_time_and_nothing_else(journal: Journal, tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content.replace("%s", journal.where))
    assert noted(journal, tmp_path) == NOTHING
    note_row(tmp_path, journal.verify(noted=NOTHING), NOW)
    assert noted(journal, tmp_path).seq == 5


def test_a_file_is_never_replaced_by_a_part_of_one(tmp_path):
    """A disk that is nearly full takes a part, and so does a limit on sizes."""
    (tmp_path / "config.toml").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            replace_file(tmp_path / "config.toml", b"a longer text")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("config.toml", "old")]
