from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import JournalUnreadable, JournalUnwritable, UsageError
from kagura_kernel.journal import sqlite
from kagura_kernel.journal.store import FLUSHED, Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()


@pytest.fixture
def opened() -> Iterator[Callable[..., Journal]]:
    journals: list[Journal] = []

    def open_one(where: Path | str) -> Journal:
        journals.append(Journal.open(where))
        return journals[-1]

    yield open_one
    for journal in journals:
        journal.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_journal_is_for_its_owner_only(tmp_path, opened):
    previous = os.umask(0)
    try:
        journal = opened(tmp_path / "a" / "b")
        journal.append(RUN.noted())
    finally:
        os.umask(previous)
    assert mode(tmp_path / "a" / "b") == 0o700
    files = {path.name: mode(path) for path in (tmp_path / "a" / "b").iterdir()}
    assert files == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}
    assert journal.where == str(tmp_path / "a" / "b" / "journal.db")


def test_a_journal_that_others_could_read_is_closed_to_them(tmp_path, opened):
    opened(tmp_path).close()
    (tmp_path / "journal.db").chmod(0o644)
    opened(tmp_path)
    assert mode(tmp_path / "journal.db") == 0o600


def test_the_file_is_in_wal_mode(tmp_path, opened):
    opened(tmp_path).close()
    with sqlite3.connect(tmp_path / "journal.db") as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()


def test_rows_that_give_power_wait_for_the_disk_and_others_do_not(tmp_path, opened):
    journal = opened(tmp_path)
    seen = {}
    for flush in (True, False, True):
        with journal.writing(flush=flush) as writing:
            seen[flush] = writing.connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
    assert seen == {True: 2, False: 1}
    assert {"approval.decided", "changes.collected", "changes.settled", "run.finished"} == FLUSHED


def test_an_empty_file_becomes_a_journal(tmp_path, opened):
    (tmp_path / "journal.db").touch()
    assert opened(tmp_path).append(RUN.noted()) == 1


@pytest.mark.parametrize(
    "content", [b"x", b"not a database, whatever its name says\n" * 100, b"SQLite format 3\0broken"]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(JournalUnreadable, match="no SQLite database"):
        Journal.open(tmp_path)
    assert (tmp_path / "journal.db").read_bytes() == content


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "journal.db") as file:
        file.execute("CREATE TABLE recipes (name TEXT)")
    file.close()
    with pytest.raises(JournalUnreadable, match="another program"):
        Journal.open(tmp_path)
    with sqlite3.connect(tmp_path / "journal.db") as file:
        assert file.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]
    file.close()


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").touch()
    (tmp_path / "journal.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalUnreadable, match="it is a link"):
        Journal.open(tmp_path)
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_directory_in_its_place_is_refused(tmp_path):
    (tmp_path / "journal.db").mkdir()
    with pytest.raises(JournalUnreadable, match="it is a directory"):
        Journal.open(tmp_path)


def test_a_file_in_the_place_of_its_directory_is_refused(tmp_path):
    (tmp_path / "home").touch()
    for where in (tmp_path / "home", tmp_path / "home" / "below"):
        with pytest.raises(JournalUnwritable, match="a file stands where its directory should be"):
            Journal.open(where)


def test_a_damaged_file_is_unreadable_and_takes_no_rows(tmp_path, opened):
    journal = opened(tmp_path)
    for number in range(200):
        journal.append(RUN.noted(f"{number} " + "x" * 500))
    journal.close()
    file = tmp_path / "journal.db"
    file.write_bytes(file.read_bytes()[:4096] + os.urandom(file.stat().st_size - 4096))
    with pytest.raises(JournalUnreadable, match=r"damaged|no SQLite database"):
        opened(tmp_path).verify()
    with pytest.raises((JournalUnreadable, JournalUnwritable)):
        opened(tmp_path).append(RUN.noted())


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_file_that_disappears_under_an_open_journal_stops_the_writing(tmp_path, opened, how):
    journal = opened(tmp_path)
    journal.append(RUN.noted())
    (tmp_path / "journal.db").rename(tmp_path / "away")
    if how == "deleted":
        (tmp_path / "away").unlink()
    if how == "replaced":
        (tmp_path / "journal.db").touch()
    for use in (lambda: journal.append(RUN.noted()), journal.check_writable):
        with pytest.raises(JournalUnwritable, match="moved or deleted"):
            use()


def test_a_writer_that_does_not_let_go_is_named(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    one, two = opened(tmp_path), opened(tmp_path)
    with one.writing():
        assert two.events() == []
        with pytest.raises(JournalUnwritable, match="another process has been writing to it"):
            two.append(RUN.noted())
    assert two.append(RUN.noted()) == 1


def test_a_transaction_left_open_by_an_interrupt_keeps_nobody_waiting(tmp_path, opened):
    journal = opened(tmp_path)
    with journal.writing() as writing:
        left_open = writing.connection
    left_open.exec_driver_sql("BEGIN IMMEDIATE")
    assert journal.append(RUN.noted()) == 1
    assert opened(tmp_path).append(RUN.noted()) == 2


def test_a_journal_may_be_asked_for_without_making_one(tmp_path):
    with pytest.raises(UsageError, match="There is no journal"):
        Journal.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "journal.db").touch()
    with pytest.raises(UsageError, match="There is no journal"):
        Journal.open(tmp_path, create=False)


def test_closing_the_last_handle_leaves_one_file(tmp_path, opened):
    journal = opened(tmp_path)
    journal.append(RUN.noted())
    journal.events()
    journal.close()
    assert [path.name for path in tmp_path.iterdir()] == ["journal.db"]
