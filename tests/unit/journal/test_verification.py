"""Whatever is done to a stored journal behind its back is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.domain.errors import JournalTampered
from kagura_kernel.journal.store import Journal
from tests.support.effort import examples
from tests.support.sample_run import SampleRun

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
