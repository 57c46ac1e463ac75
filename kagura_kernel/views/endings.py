"""How the work was tried out, what became of a part that was handed on, and how to go on with a run."""

from __future__ import annotations

from kagura_kernel.domain.events import RunVerified
from kagura_kernel.render.blocks import Block, Blocks, Fold, Line, Pre, Span, Words, chip, code, label, soft
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import money
from kagura_kernel.views.parts import Check, Part
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import STATUS_WORDS, TONES

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
