"""Why something did not end well, in a few words: a tool call, a program, a whole run."""

from __future__ import annotations

import re

from kagura_kernel.render.escape import one_line
from kagura_kernel.views.parts import Call
from kagura_kernel.views.run import RunView

OUT_OF_MEMORY = "It was killed from outside (out of memory?): exit code 137 stands for the signal KILL."
_KILLED = 137
_REASON = 60
_CODE = re.compile(r"\[(ERR_[A-Z_]+)\]")
# What a shell tool adds of its own below and between the output.
_FRAME = re.compile(r"\[.*\]|\(no output\)")


def was_killed(exit_code: int | None) -> bool:
    """Whether a program ended by a KILL that it cannot have asked for; running out of memory looks like this."""
    return exit_code == _KILLED


def failure_word(call: Call) -> str:
    """`refused` for a denial, `timed out` or `failed` for a call without an exit code; empty when it went well."""
    finished = call.finished
    if finished is None or not finished.is_error or finished.exit_code is not None:
        return ""
    found = _CODE.search(finished.text)
    code = found[1] if found else ""
    if call.refused or code.startswith("ERR_APPROVAL"):
        return "refused"
    return "timed out" if code.endswith("_TIMEOUT") else "failed"


def failure_reason(call: Call) -> str:
    """The reason of a failure on part of a line; empty when there is none, or when an approval below says it."""
    finished = call.finished
    if finished is None or not finished.is_error or call.refused:
        return ""
    lines = [line for line in finished.text.splitlines() if line.strip() and not _FRAME.fullmatch(line.strip())]
    if was_killed(finished.exit_code) and not lines:
        return "killed (out of memory?)"
    # A program's last line is where it says what went wrong; our own tools say it first.
    return one_line(lines[0] if finished.exit_code is None else lines[-1], _REASON) if lines else ""


def end_words(view: RunView) -> str:
    """Why a run did not end well; empty when it did, or when an exit code or the error of its cell says enough."""
    finished = view.finished
    if finished is None or (view.awaited and finished.status == "killed"):
        return ""
    if finished.exit_code is not None:
        return OUT_OF_MEMORY if was_killed(finished.exit_code) else ""
    return finished.error


def end_code(view: RunView) -> str:
    """The code of what ended a run; empty where a program's exit code stands in the head, or a person stopped it."""
    finished = view.finished
    if finished is None or finished.exit_code is not None or finished.status == "killed":
        return ""
    return finished.error_code
