from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.domain.events import ToolCalled
from kagura_kernel.journal.encoding import as_text, decode, encode, moment, stamp
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
