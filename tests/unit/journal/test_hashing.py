from __future__ import annotations

import hashlib
import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.journal.encoding import FIRST, row_hash
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

COLUMNS = st.tuples(*[st.text(max_size=8)] * 6)


def test_a_short_script_that_knows_only_the_documented_form_can_check_a_journal(tmp_path):
    journal = Journal.open(tmp_path)
    for number in range(5):
        journal.append(SampleRun().noted(f"{number} – 日本"))
    journal.close()

    with sqlite3.connect(tmp_path / "journal.db") as export:
        rows = export.execute("SELECT * FROM journal_events ORDER BY seq").fetchall()
        count, last_hash = export.execute("SELECT rows, last_hash FROM journal_head").fetchone()
    export.close()
    before = "0" * 64
    for expected, (seq, at, kind, run_id, session_id, body, prev_hash, found) in enumerate(rows, start=1):
        fields = [str(seq), at, kind, run_id, session_id, body, prev_hash]
        data = b"".join(b"%d:%s," % (len(field.encode()), field.encode()) for field in fields)
        assert seq == expected
        assert prev_hash == before
        assert found == hashlib.sha256(data).hexdigest()
        before = found
    assert (count, last_hash) == (5, before)


def test_the_form_is_fixed_for_good():
    columns = (1, "2026-01-01T12:00:00.000000Z", "noted", "run-1", "ses-1", '{"text":"ü"}', FIRST)
    assert row_hash(*columns) == "6d5027ad491eb0902b2bd58351935099abc177d0b7933b469abc77a548f30905"


@given(COLUMNS, COLUMNS)
def test_different_columns_have_different_hashes_wherever_their_borders_lie(one, other):
    assert (row_hash(1, *one) == row_hash(1, *other)) is (one == other)
    moved = ("".join(one), *[""] * 5)
    assert (row_hash(1, *one) == row_hash(1, *moved)) is (one == moved)
