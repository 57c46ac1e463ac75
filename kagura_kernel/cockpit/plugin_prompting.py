"""An audit or an enabling carried on in text: a report, a few prompts, an answer. For terminals of every kind."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.plugin_talk import (
    APPROVE,
    ENABLE,
    REJECT,
    AuditBegun,
    AuditDone,
    AuditorSilent,
    PluginAsked,
    PluginEnabled,
    PluginFailure,
    PluginQuestion,
    PluginStep,
    PluginTalk,
)
from kagura_kernel.domain.errors import ApprovalError, PluginNotConfigured

if TYPE_CHECKING:
    from kagura_kernel.plugins.configuration import Question
    from kagura_kernel.plugins.manager import PluginRow

_POLL_SECONDS = 0.2
_WORDS = {
    **dict.fromkeys(("e", "enable", "y", "yes"), ENABLE),
    **dict.fromkeys(("a", "approve"), APPROVE),
    **dict.fromkeys(("r", "reject", "n", "no", ""), REJECT),
}


@dataclass(frozen=True, slots=True)
class TextSurface:
    """Where a person reads and types."""

    say: Callable[[str], None]  # Prints a line
    # Prompts for a line; raises `EOFError` when there will be none, which is a no, and `KeyboardInterrupt` when all of
    # it is called off
    ask: Callable[[str], str]
    report: Callable[[AuditDone], None]  # Prints an audit
    by: str  # Who sits there
    via: str  # What that place is called in records
    # Prints what became of an enabling; None says in which session it is enabled
    enabled: Callable[[PluginEnabled], None] | None = None
    hears_silence: bool = True  # Whether it asks what to do about an auditor that does not answer


def talk_in_text(talk: PluginTalk, surface: TextSurface) -> PluginRow:
    """Carry it on to its end; Ctrl-C calls it off.

    Raises:
        KaguraError: it did not go well.
    """
    steps: queue.SimpleQueue[PluginStep] = queue.SimpleQueue()
    stop = talk.subscribe(steps.put)
    try:
        for step in _steps(talk, steps, surface):
            if isinstance(step, PluginFailure) or not _show(step, surface):
                break
        return talk.result()
    except BaseException:
        talk.kill(surface.by)
        raise
    finally:
        stop()


def _steps(talk: PluginTalk, steps: queue.SimpleQueue[PluginStep], surface: TextSurface) -> Iterator[PluginStep]:
    """The steps as they come; an audit that takes longer than a moment is told of."""
    auditing = False
    while True:
        try:
            step = steps.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            if talk.done and steps.empty():
                return
            if auditing:
                surface.say("Auditing …")
                auditing = False
            continue
        auditing = isinstance(step, AuditBegun)
        yield step


def _show(step: PluginStep, surface: TextSurface) -> bool:
    """Show a step; whether more can come."""
    match step:
        case AuditDone(cached=cached):
            surface.report(step)
            if cached:
                surface.say("These very files were audited before; the report is that one.")
        case AuditorSilent() if surface.hears_silence:
            _go_on(step, surface)
        case PluginAsked(question):
            _answer(question, surface)
        case PluginEnabled():
            if surface.enabled is not None:
                surface.enabled(step)
            else:
                surface.say(enabled_text(step))
            return False
        case _:
            pass
    return True


def _go_on(silent: AuditorSilent, surface: TextSurface) -> None:
    """Ask what to do about an auditor that does not answer; without an answer the deadline decides."""
    surface.say(silent.text)
    shown = ", ".join(f"({option[:1].lower()}){option[1:]}" for option in silent.options)
    while True:
        try:
            typed = surface.ask(f"{shown}: ").strip().casefold()
        except EOFError:
            return
        chosen = [option for option in silent.options if typed and option.casefold().startswith(typed)]
        if len(chosen) == 1:
            break
        surface.say("That is none of the answers.")
    try:
        silent.answer(chosen[0], surface.by, surface.via)
    except ApprovalError as error:
        surface.say(error.message)


def enabled_text(step: PluginEnabled, where: str = "") -> str:
    """What became of an enabling, and what to do with it.

    `where` goes on from the plugin's name; empty is the session that it was asked for.
    """
    row = step.row
    where = where or f"is enabled in {f'the session {step.session}' if step.session else 'this session'}"
    modules = " or ".join(f"`from kagura_host import {module}`" for module in row.modules)
    lines = [f"{row.name} {row.version} {where}. Code in its boxes calls it by {modules}."]
    if step.fast:
        lines.insert(0, f"{row.name} is approved: no audit was needed.")
    if step.approved:
        lines.append("It is approved for later sessions, until one of its files changes.")
    if step.silent:
        lines.append(step.silent)
    return "\n".join(lines)


def approved_text(row: PluginRow) -> str:
    """What an approval means, and on what it rests."""
    said = f"{row.name} {row.version} is approved for later sessions, until one of its files changes."
    return f"{said} No brain has looked at it: this rests on the scan alone." if row.static_only else said


def _answer(question: PluginQuestion, surface: TextSurface) -> None:
    """Ask until there is an answer that can be taken, from here or from elsewhere."""
    refusal = question.choices[-1]
    choice = ""
    while True:
        try:
            choice = choice or _choice(question, surface)
            answers = {} if choice == refusal else _form(question, surface)
        except EOFError:
            choice, answers = refusal, {}
        try:
            question.answer(choice, answers, by=surface.by, via=surface.via)
        except PluginNotConfigured as error:
            surface.say(error.message)
        except ApprovalError as error:
            surface.say(error.message)
            return
        else:
            return


def _choice(question: PluginQuestion, surface: TextSurface) -> str:
    if not question.approval_id:
        return ENABLE
    prompt = f"Enable {question.row.name}? (e)nable for this session, (a)pprove for later sessions too, (r)eject [r]: "
    while (choice := _WORDS.get(surface.ask(prompt).strip().casefold())) is None:
        surface.say("That is none of the answers.")
    return choice


def _form(question: PluginQuestion, surface: TextSurface) -> dict[str, str]:
    if not question.fields:
        return {}
    surface.say(f"Configure {question.row.name}:")
    return {field.name: _filled(question, field, surface) for field in question.fields}


def _filled(question: PluginQuestion, field: Question, surface: TextSurface) -> str:
    surface.say(f"  {field.field.description}")
    shown = f" [{field.shown_default}]" if field.shown_default else ""
    while True:
        text = surface.ask(f"  {field.name}{shown}: ").strip()
        wrong = question.problem(field, text)
        if not wrong:
            return text
        surface.say(f"  {wrong}")
