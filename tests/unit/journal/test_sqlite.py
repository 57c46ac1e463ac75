import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import create_engine, inspect

from kagura_kernel.domain.errors import JournalTampered, JournalTooNew, JournalUnreadable, JournalUnwritable, UsageError
from kagura_kernel.journal import schema
from kagura_kernel.journal.store import FLUSHED, Journal
from tests.support.effort import examples
from tests.support.journals import touch
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
    with closing(sqlite3.connect(tmp_path / "journal.db")) as file, file:
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
    touch(tmp_path / "journal.db", "CREATE TABLE recipes (name TEXT)")
    with pytest.raises(JournalUnreadable, match="another program"):
        Journal.open(tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as file, file:
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


ROWS = 6
TEXTS = ("at", "kind", "run_id", "session_id", "body", "prev_hash", "hash")
SEQS = st.integers(1, ROWS)


class Victim:
    """A journal and the means to meddle with its file."""

    def __init__(self, directory: Path) -> None:
        self.journal = Journal.open(directory)
        run = SampleRun()
        for event in (run.started(), *run.tool(), run.asked(), run.decided(), run.finished()):
            self.journal.append(event)
        self.file = sqlite3.connect(directory / "journal.db", isolation_level=None)

    @contextmanager
    def meddled(self, statement: str, *values: object) -> Iterator[None]:
        """The journal with one thing changed; afterwards it is as before."""
        rows = self.file.execute("SELECT * FROM journal_events").fetchall()
        assert self.file.execute(statement, values).rowcount > 0
        try:
            yield
        finally:
            self.file.execute("DELETE FROM journal_events")
            self.file.executemany("INSERT INTO journal_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            assert self.journal.verify().rows == ROWS

    def finds_it(self) -> int:
        with pytest.raises(JournalTampered) as caught:
            self.journal.verify()
        return caught.value.seq


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    made = Victim(tmp_path_factory.mktemp("journal"))
    yield made
    made.file.close()
    made.journal.close()


@examples(50, 300, "kagura_kernel/journal/")
@given(seq=SEQS, column=st.sampled_from(TEXTS), place=st.integers(0, 10**6), change=st.integers(1, 255))
def test_a_change_of_any_byte_in_any_column_of_any_row_is_found(victim, seq, column, place, change):
    select = f"SELECT CAST({column} AS BLOB) FROM journal_events WHERE seq = ?"
    data = bytearray(victim.file.execute(select, (seq,)).fetchone()[0])
    data[place % len(data)] ^= change
    update = f"UPDATE journal_events SET {column} = CAST(? AS TEXT) WHERE seq = ?"
    with victim.meddled(update, bytes(data), seq):
        assert victim.finds_it() in {seq, seq + 1}


@given(seq=SEQS, column=st.sampled_from(TEXTS), text=st.text(max_size=20))
def test_another_text_in_any_column_of_any_row_is_found(victim, seq, column, text):
    with victim.meddled(f"UPDATE journal_events SET {column} = ? WHERE seq = ?", text, seq):
        assert victim.finds_it() in {seq, seq + 1}


@pytest.mark.parametrize("seq", range(1, ROWS + 1))
def test_a_missing_row_is_found_wherever_it_was(victim, seq):
    with victim.meddled("DELETE FROM journal_events WHERE seq = ?", seq):
        assert victim.finds_it() == seq


@pytest.mark.parametrize("kept", range(ROWS))
def test_a_cut_off_end_is_found_however_long_it_is(victim, kept):
    with victim.meddled("DELETE FROM journal_events WHERE seq > ?", kept):
        assert victim.finds_it() == kept + 1


@given(seq=SEQS, number=st.integers(-(2**63), 2**63 - 1).filter(lambda number: not 1 <= number <= ROWS))
def test_another_number_on_any_row_is_found(victim, seq, number):
    with victim.meddled("UPDATE journal_events SET seq = ? WHERE seq = ?", number, seq):
        victim.finds_it()


@pytest.mark.parametrize("column", TEXTS)
def test_the_same_bytes_in_a_column_that_is_no_text_any_more_are_found(victim, column):
    with victim.meddled(f"UPDATE journal_events SET {column} = CAST({column} AS BLOB) WHERE seq = 3"):
        assert victim.finds_it() == 3


def test_two_rows_with_their_contents_exchanged_are_found(victim):
    exchange = """UPDATE journal_events SET (at, kind, run_id, session_id, body, prev_hash, hash) =
        (SELECT at, kind, run_id, session_id, body, prev_hash, hash FROM journal_events AS other
         WHERE other.seq = 7 - journal_events.seq) WHERE seq IN (3, 4)"""
    with victim.meddled(exchange):
        assert victim.finds_it() == 3


def test_a_chain_that_was_rewritten_whole_shows_by_a_hash_that_was_noted_elsewhere(tmp_path):
    noted = []
    for name, text in (("true", "as it was"), ("forged", "as it was not")):
        journal = Journal.open(tmp_path / name)
        journal.append(SampleRun().noted(text))
        noted.append(journal.verify().last_hash)
        journal.close()
    assert noted[0] != noted[1]


def version_of(directory: Path) -> int:
    with closing(sqlite3.connect(directory / "journal.db")) as file, file:
        (number,) = file.execute("SELECT max(version) FROM journal_version").fetchone()
    file.close()
    return number


@pytest.fixture
def with_rows(tmp_path: Path) -> Path:
    journal = Journal.open(tmp_path)
    journal.append(RUN.started())
    journal.append(RUN.noted())
    journal.close()
    return tmp_path


def test_the_steps_lead_to_exactly_the_tables_that_the_schema_shows(with_rows):
    engine = create_engine(f"sqlite:///{with_rows / 'journal.db'}")
    found = inspect(engine)
    assert set(found.get_table_names()) - {"sqlite_sequence"} == set(schema.metadata.tables)
    for name, table in schema.metadata.tables.items():
        columns = {
            column["name"]: (column["nullable"] and not column["primary_key"]) for column in found.get_columns(name)
        }
        assert columns == {column.name: bool(column.nullable) for column in table.columns}, name
        assert {index["name"] for index in found.get_indexes(name)} == {index.name for index in table.indexes}, name
    engine.dispose()


def test_an_older_journal_is_brought_up_and_keeps_its_rows(with_rows, monkeypatch):
    step = ("CREATE TABLE journal_later (id {autokey})",)
    monkeypatch.setattr(schema, "_STEPS", (*schema._STEPS, step))
    later = schema.KNOWN_VERSION + 1
    monkeypatch.setattr(schema, "KNOWN_VERSION", later)
    for _ in range(2):
        journal = Journal.open(with_rows)
        assert journal.verify().rows == 2
        journal.close()
    assert version_of(with_rows) == later


def test_a_step_that_fails_leaves_the_journal_as_it_was(with_rows, monkeypatch):
    steps = (("CREATE TABLE journal_later (id {autokey})",), ("CREATE TABLE journal_later (id {autokey})",))
    with monkeypatch.context() as patched:
        patched.setattr(schema, "_STEPS", (*schema._STEPS, *steps))
        patched.setattr(schema, "KNOWN_VERSION", schema.KNOWN_VERSION + 2)
        with pytest.raises(JournalUnwritable, match="already exists"):
            Journal.open(with_rows)
    assert version_of(with_rows) == schema.KNOWN_VERSION
    journal = Journal.open(with_rows)
    assert journal.append(RUN.noted()) == 3
    journal.close()


def test_a_newer_journal_is_refused_and_left_alone(with_rows):
    later = schema.KNOWN_VERSION + 1
    with closing(sqlite3.connect(with_rows / "journal.db")) as file, file:
        file.execute("INSERT INTO journal_version VALUES (?, 'later')", (later,))
    file.close()
    with pytest.raises(JournalTooNew) as caught:
        Journal.open(with_rows)
    assert (caught.value.found, caught.value.known) == (later, schema.KNOWN_VERSION)
    assert "Upgrade kagura-kernel" in str(caught.value)
    assert version_of(with_rows) == later
