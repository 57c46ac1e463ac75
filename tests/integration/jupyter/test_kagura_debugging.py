"""The debugger, subshells and background of the kagura kernel, as JupyterLab speaks with them."""

from __future__ import annotations

import itertools

import pytest

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]


class Debugger:
    """A front end's side of the debug adapter protocol."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._numbers = itertools.count(1)

    def send(self, command, **arguments):
        request = {"type": "request", "command": command, "seq": next(self._numbers), "arguments": arguments}
        reply = self._kernel.ask("debug_request", request)
        assert reply["success"], reply
        return reply.get("body", {})

    def begin(self):
        # A debugger that was attached leaves its traces in every thread.
        self._kernel.spent = True
        self.send("initialize", clientID="test", adapterID="", pathFormat="path", linesStartAt1=True)
        self.send("attach")


def test_a_breakpoint_in_a_python_cell_stops_on_the_line_that_was_marked(kagura):
    cell = "\n%%py\ntotal = 0\nfor number in range(3):\n    total += number\ntotal"
    debugger = Debugger(kagura)
    debugger.begin()
    path = debugger.send("dumpCell", code=cell)["sourcePath"]
    marked = debugger.send("setBreakpoints", source={"path": path}, breakpoints=[{"line": 5}], sourceModified=False)
    assert [point["verified"] for point in marked["breakpoints"]] == [True]
    debugger.send("configurationDone")
    request = kagura.execute(cell)
    thread = kagura.event("stopped")["threadId"]
    frame = debugger.send("stackTrace", threadId=thread)["stackFrames"][0]
    assert (frame["line"], frame["source"]["path"]) == (5, path)
    debugger.send("setBreakpoints", source={"path": path}, breakpoints=[], sourceModified=False)
    debugger.send("continue", threadId=thread)
    messages = kagura.follow(request)
    assert [m["content"]["data"]["text/plain"] for m in messages if m["msg_type"] == "execute_result"] == ["3"]
    debugger.send("disconnect", restart=False, terminateDebuggee=False)


def test_a_subshell_answers_while_a_run_is_awaited(kagura):
    run = kagura.execute("bash: echo begun; sleep 3\nOver.", allow_stdin=True, metadata={"cellId": "a1"})
    kagura.follow(run, lambda message: message["msg_type"] == "comm_open")
    subshell = kagura.ask("create_subshell_request", {})["subshell_id"]
    given = {"silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
    reply = kagura.ask("execute_request", {"code": "/status"} | given, subshell=subshell)
    assert reply["status"] == "ok"
    reply = kagura.ask("execute_request", {"code": "%kagura kill last"} | given, subshell=subshell)
    assert reply["status"] == "ok"
    assert "RunKilled" in str(kagura.follow(run))
    kagura.ask("delete_subshell_request", {"subshell_id": subshell})
