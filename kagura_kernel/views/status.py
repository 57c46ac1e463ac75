"""The state of a run in words, the same on every display, and why something of it did not end well."""

from __future__ import annotations

import re

from kagura_kernel.domain.events import RunVerified
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.render.blocks import Block, Blocks, Fold, Line, Pre, Span, Words, chip, code, label, soft
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import money
from kagura_kernel.views.parts import Call, Check, Part
from kagura_kernel.views.run import RunView

STATUS_WORDS = {
    "starting": "Starting",
    "running": "Running",
    "waiting": "Waiting for you",
    "done": "Done",
    "failed": "Failed",
    "stopped": "Limit reached",
    "killed": "Stopped",
    "denied": "Denied",
    "lost": "Lost",
}

TONES = {
    "starting": "busy",
    "running": "busy",
    "waiting": "ask",
    "done": "good",
    "stopped": "warn",
    "killed": "warn",
    "denied": "warn",
}
"""The tone of each; `bad` for the others."""

RISK_TONES = {Risk.LOW: "good", Risk.UNKNOWN: "warn", Risk.MEDIUM: "warn", Risk.HIGH: "bad", Risk.CRITICAL: "bad"}

NOT_VERIFIED = "Done, not verified"
"""The state of a run that came to its end, and whose work did not pass its verification."""


def status_of(view: RunView) -> str:
    """A key of `STATUS_WORDS`."""
    if view.finished is not None:
        return view.finished.status
    if view.pending and not (view.started is not None and view.started.headless):
        return "waiting"
    return "running" if view.box is not None or view.auditing else "starting"


def run_label(view: RunView) -> str:
    """What kind of run it is, as the name of its card."""
    if view.auditing:
        return "Plugin audit"
    return "Agent run" if view.agent else "Sandbox run"


def status_words(view: RunView) -> str:
    """The state for reading."""
    status = status_of(view)
    finished = view.finished
    if finished is not None and finished.exit_code:
        return f"Exit code {finished.exit_code}"
    if finished is not None and finished.status == "done" and finished.verified is False:
        return NOT_VERIFIED
    return STATUS_WORDS.get(status, status)


def ended_badly(view: RunView) -> bool:
    """Whether it came to its end, and its program or its verification did not go well."""
    return view.finished is not None and view.finished.status == "done" and not good(view)


def good(view: RunView) -> bool:
    """Whether a finished run ended as it was meant to, its program and its verification included."""
    end = view.finished
    return end is not None and end.status == "done" and not end.exit_code and end.verified is not False


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


_SUMMARY, _COMMAND = 200, 120


def told_block(part: Check | Part, *, steady: bool) -> Block:
    """How the finished work was tried out, or a part of it that was handed on.

    What a program printed when all was well may hold times: a card that has to come out the same leaves it out.
    """
    return _check(part, steady=steady) if isinstance(part, Check) else _part(part, steady=steady)


def resume_blocks(view: RunView) -> Blocks:
    """How to go on with a run that did not end well; nothing where it cannot be done."""
    finished, checkpoint = view.finished, view.learned.checkpoint
    if finished is None or finished.status == "done" or checkpoint is None or view.repeatable:
        return ()
    return (label(Span(f"`%%kagura --resume {finished.run_id}` goes on from here.", "prose")),)


def verified_line(event: RunVerified) -> str:
    """Whether the work was good, on one line."""
    command = one_line(event.command, _COMMAND)
    if event.why:
        return f"verification could not be done: {command} ({one_line(event.why, 300)})"
    ending = "passed" if event.passed else "did not pass"
    code = "" if event.passed or event.exit_code is None else f", exit {event.exit_code}"
    return f"verification {ending} in a fresh box: {command}{code}"


def _check(check: Check, *, steady: bool) -> Block:
    event = check.event
    tone, word = ("good", "Verified") if event.passed else ("bad", "Not verified")
    code_ = "" if event.passed or event.exit_code is None else f"exit {event.exit_code}, "
    where = f"could not be done: {one_line(event.why, _SUMMARY)}" if event.why else f"{code_}in a fresh box"
    words: Words = (chip(word, tone), code(one_line(event.command, _SUMMARY), "arg"), soft(where))
    plain = f"{'=' if event.passed else '!'} {verified_line(event)}"
    if not event.text.strip() or (steady and event.passed):
        return Line(words, "note check", plain=plain)
    return Fold(words, (Pre(event.text, is_output=True),), check.key, "call check", plain=plain)


def _part(part: Part, *, steady: bool) -> Line:
    ended = part.ended
    state = "Running" if ended is None else STATUS_WORDS.get(ended.status, ended.status)
    tone = "busy" if ended is None else TONES.get(ended.status, "bad")
    words: list[Span] = [chip(state, tone)]
    words.append(Span(("Handed on", *(() if steady else ("to", code(part.started.child)))), "item"))
    words += [chip(one_line(part.started.worker, 60))] if part.started.worker else []
    words += [soft(money(ended.usd))] if ended is not None and ended.usd is not None else []
    words += [soft(f"done once more by {ended.again}")] if ended and ended.again else []
    now = "goes on" if ended is None else state.lower()
    why = f" ({ended.error_code})" if ended is not None and ended.error_code and ended.status != "killed" else ""
    return Line(tuple(words), "note handed", plain=f"> handed on  ({now}{why})")
