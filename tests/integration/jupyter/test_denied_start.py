"""A run that is not allowed to start ends its cell, with a person and without."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

QUESTION = re.compile(r'data-approval=\\"(app-[^\\"]+)')
CELL = "%%sandbox bash --writable-root\ntouch started"


def errors(messages):
    return [message["content"] for message in messages if message["msg_type"] == "error"]


def opening(message):
    """The state that a widget begins with; nothing for other messages."""
    return message["content"].get("data", {}).get("state", {}) if message["msg_type"] == "comm_open" else {}


def test_a_start_that_nobody_can_allow_stops_run_all_with_one_calm_line(kernel):
    messages = kernel.run(CELL)
    [error] = errors(messages)
    assert error["ename"] == "RunDenied"
    [line] = error["traceback"]
    assert "ERR_RUN_DENIED" in line
    assert "ERR_APPROVAL" in line
    [card] = [message["content"]["data"] for message in messages if message["msg_type"] == "display_data"]
    assert "[sandbox run: denied]" in card["text/plain"]


def test_a_start_that_a_person_denies_stops_run_all_with_one_calm_line(kernel):
    request = kernel.send(CELL, person=True)
    shown = kernel.follow(request, lambda message: QUESTION.search(json.dumps(message["content"])) is not None)
    [comm] = [message["content"]["comm_id"] for message in shown if "parts" in opening(message)]
    [ident] = QUESTION.search(json.dumps(shown[-1]["content"])).groups()
    kernel.press(comm, act="deny", id=ident)
    [error] = errors(kernel.follow(request))
    assert error["ename"] == "RunDenied"
    [line] = error["traceback"]
    assert "ERR_APPROVAL_DENIED" in line


def test_a_denied_run_in_the_background_raises_where_it_is_awaited(kernel):
    assert errors(kernel.run("%%sandbox bash --bg --writable-root\ntrue")) == []
    [error] = errors(kernel.run("await Out[max(Out)]"))
    assert error["ename"] == "RunDenied"
    assert len(error["traceback"]) == 1


def test_the_leases_can_be_worked_with_in_a_notebook(kernel):
    messages = kernel.run("leases = %kagura leases\nprint(len(leases), list(leases.columns)[:3])", person=True)
    assert errors(messages) == []
    [printed] = [message["content"]["text"] for message in messages if message["msg_type"] == "stream"]
    assert printed == "0 ['lease', 'provider', 'scope']\n"
    assert [message for message in messages if message["msg_type"] == "display_data"] == []
    shown = kernel.run("%kagura leases", person=True)
    assert [message["msg_type"] for message in shown if "data" in message["content"]] == ["display_data"]
    assert "no run holds a credential" in json.dumps(shown[-2]["content"])
