import hashlib
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.events import ToolCalled
from kagura_kernel.journal.encoding import FIRST, as_text, decode, encode, moment, row_hash, stamp
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - naive bounds


@given(st.text())
def test_unicode_comes_back_exactly(text):
    event = RUN.started(task=text)
    assert decode(encode(event)) == event


@given(ANY_TEXT)
def test_any_text_at_all_can_be_stored_and_read(text):
    event = ToolCalled(
        run_id="run-1", session_id="ses-1", at=RUN.at, call_id="c", tool="t", arguments={text: [text, {"x": text}]}
    )
    body = encode(event)
    body.encode()
    assert decode(body).kind == "tool.called"


def test_odd_bytes_of_a_file_name_come_back_exactly():
    event = decode(encode(RUN.noted("a\udcffb")))
    assert event.text == "a\udcffb"


def test_values_that_json_does_not_have_are_stored_as_their_text():
    event = ToolCalled(
        run_id="run-1",
        session_id="ses-1",
        at=RUN.at,
        call_id="c",
        tool="t",
        arguments={"when": RUN.at, "what": {1}, "odd": "\udcff"},
    )
    arguments = json.loads(encode(event))["arguments"]
    assert arguments == {"when": "2026-01-01T12:00:00.000000Z", "what": "{1}", "odd": "\udcff"}


@pytest.mark.parametrize("body", ["", "no json", "[]", "{}", '{"kind": "noted"}'])
def test_what_is_no_event_is_refused(body):
    with pytest.raises(ValueError, match="validation error"):
        decode(body)


@given(MOMENTS, MOMENTS)
def test_stamps_sort_as_time_does_and_come_back(one, other):
    assert (stamp(one) < stamp(other)) is (one < other)
    assert len(stamp(one)) == 27
    assert moment(stamp(one)) == one


def test_a_moment_of_another_zone_is_stored_in_utc():
    assert stamp(datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))) == "2026-01-01T00:00:00.000000Z"


@given(ANY_TEXT)
def test_plain_text_has_nothing_that_a_database_refuses(text):
    assert "\0" not in as_text(text)
    as_text(text).encode()


def test_an_event_is_read_wherever_its_kind_stands():
    event = RUN.noted("a word")
    fields = json.loads(encode(event))
    turned = json.dumps({name: fields[name] for name in reversed(fields)})
    assert [*map(decode, (encode(event), turned, json.dumps(fields, indent=2)))] == [event] * 3


def test_the_last_of_two_kinds_counts():
    body = encode(RUN.noted("a word"))
    assert decode(body[:-1] + ',"kind":"later.kind"}').kind == "later.kind"


def test_reading_one_event_builds_no_other():
    code = (
        "import sys\nfrom kagura_kernel.domain import events\n"
        "print(events.parse_event(sys.argv[1]).kind, events.Noted.__pydantic_complete__,"
        " events.KitStaged.__pydantic_complete__, events.MountRow.__pydantic_complete__)"
    )
    words = [sys.executable, "-c", code, encode(RUN.noted("a word"))]
    said = subprocess.run(words, capture_output=True, check=True, text=True).stdout
    assert said.split() == ["noted", "True", "False", "False"]


COLUMNS = st.tuples(*[st.text(max_size=8)] * 6)


def test_a_short_script_that_knows_only_the_documented_form_can_check_a_journal(tmp_path):
    journal = Journal.open(tmp_path)
    for number in range(5):
        journal.append(SampleRun().noted(f"{number} – 日本"))
    journal.close()

    with closing(sqlite3.connect(tmp_path / "journal.db")) as export, export:
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
