import os
import stat

import pytest

from kagura_kernel.domain.errors import JournalUnreadable, UsageError
from kagura_kernel.journal.export import back_up
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun


def test_a_copy_of_a_journal_in_use_holds_and_goes_on_by_itself(tmp_path):
    journal = Journal.open(tmp_path / "books")
    journal.append(SampleRun().noted("one"))
    with journal.writing() as writing:
        writing.append(SampleRun().noted("not there yet"))
        goal = back_up(tmp_path / "books", tmp_path / "copies" / "monday")
    journal.append(SampleRun().noted("three"))
    journal.close()
    assert [entry.name for entry in goal.parent.iterdir()] == ["journal.db"]
    copy = Journal.open(goal.parent, create=False)
    assert copy.verify().rows == 1
    copy.append(SampleRun().noted("of the copy"))
    assert copy.verify().rows == 2
    copy.close()


def test_nobody_else_may_read_the_copy(tmp_path):
    Journal.open(tmp_path / "books").close()
    goal = back_up(tmp_path / "books", tmp_path / "copy")
    assert stat.S_IMODE(goal.stat().st_mode) == 0o600
    assert stat.S_IMODE(goal.parent.stat().st_mode) == 0o700


def test_no_journal_is_ever_written_over(tmp_path):
    Journal.open(tmp_path / "books").close()
    goal = back_up(tmp_path / "books", tmp_path / "copy")
    before = goal.read_bytes()
    with pytest.raises(UsageError, match="already"):
        back_up(tmp_path / "books", tmp_path / "copy")
    assert goal.read_bytes() == before


def test_what_a_killed_process_of_the_same_number_has_left_is_in_nobodys_way(tmp_path):
    Journal.open(tmp_path / "books").close()
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / f"journal.db.half-{os.getpid()}").touch()
    assert back_up(tmp_path / "books", tmp_path / "copy").is_file()


def test_what_is_no_journal_leaves_no_copy(tmp_path):
    (tmp_path / "books").mkdir()
    with pytest.raises(UsageError, match="no journal"):
        back_up(tmp_path / "books", tmp_path / "copy")
    (tmp_path / "books" / "journal.db").write_bytes(b"something else" * 1000)
    with pytest.raises(JournalUnreadable):
        back_up(tmp_path / "books", tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    Journal.open(tmp_path / "books").close()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/copy/journal\.db cannot be written: "):
        back_up(tmp_path / "books", tmp_path / "file" / "copy")


def test_a_server_has_tools_of_its_own(tmp_path):
    with pytest.raises(UsageError, match="pg_dump"):
        back_up("postgresql://ada@db/books", tmp_path)
