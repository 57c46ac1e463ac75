"""Following an audit or an enabling from a cell: awaited, never blocked on, called off with the cell.

It goes on in the engine's loop. The cell looks ten times a second at what has arrived, and wakes up as often, so that
its loop hears an interrupt in time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from kagura_kernel.cockpit.plugin_prompting import enabled_text
from kagura_kernel.cockpit.plugin_talk import (
    AuditBegun,
    AuditDone,
    AuditorSilent,
    PluginAsked,
    PluginEnabled,
    PluginExamined,
    PluginFailure,
    PluginStep,
    PluginTalk,
)
from kagura_kernel.domain.errors import KaguraError, PluginNotConfigured, RunKilled
from kagura_kernel.domain.events import AnyEvent
from kagura_kernel.jupyter.answers import press
from kagura_kernel.jupyter.cards.audit import LABEL, audit_parts
from kagura_kernel.jupyter.cards.audit_form import title_words
from kagura_kernel.jupyter.cards.audit_record import audit_bundle, card_text
from kagura_kernel.jupyter.cards.audit_view import AuditView, FormField, PluginForm, Subject
from kagura_kernel.jupyter.follow import LINGER_SECONDS, TICK_SECONDS, forgive, interruptible
from kagura_kernel.jupyter.live_run import WIDGET_SECONDS
from kagura_kernel.jupyter.plugins.in_text import TextAudit, lines_of
from kagura_kernel.jupyter.slots import Slot, write_once
from kagura_kernel.jupyter.surface import Surface, person

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.plugin_talk import PluginQuestion
    from kagura_kernel.plugins.configuration import Question
    from kagura_kernel.plugins.manager import PluginRow

VIA = "cell"


def take(view: AuditView, what: PluginStep | AnyEvent) -> None:
    """Tell a view one step, or one event of the run."""
    match what:
        case PluginExamined(row=row):
            view.examined(subject_of(row))
        case AuditBegun() | AuditorSilent():
            pass  # the run's own events tell of it
        case AuditDone(audit=audit, cached=cached, config=config):
            view.reported(audit, cached=cached, config=config)
        case PluginAsked(question=question):
            view.asked(form_of(question))
        case PluginEnabled(row=row):
            view.went_well(subject_of(row), enabled_text(what))
        case PluginFailure(error=error):
            view.failed(error)
        case _:
            view.apply(what)


def subject_of(row: PluginRow) -> Subject:
    """A plugin, as cards name it."""
    return Subject(
        row.name, row.version, row.description, row.place, row.signed_by, row.modules, row.config, row.approved
    )


def form_of(question: PluginQuestion) -> PluginForm:
    """A question, as cards ask it."""
    fields = tuple(map(_field_of, question.fields))
    return PluginForm(question.approval_id, question.choices, fields, question.deadline)


def _field_of(question: Question) -> FormField:
    field = question.field
    default = None if field.default is None else question.shown_default
    return FormField(question.name, field.type, field.description, default, field.minimum, field.maximum)


_afterwards: set[asyncio.Task[None]] = set()


class AuditDisplay(Protocol):
    """Shows one audit or enabling. Called in the context of its cell."""

    def refresh(self, view: AuditView) -> None:
        """Show what changed since the last time; called ten times a second, also when nothing did."""
        ...

    def finish(self, view: AuditView) -> None:
        """Show the end; the last call."""
        ...


async def follow_talk(cockpit: Cockpit, talk: PluginTalk, surface: Surface) -> PluginRow:
    """Show it until it ends, and return the plugin as it is then.

    Args:
        cockpit: Where answers go.
        talk: The audit or the enabling.
        surface: Where it is shown.

    Raises:
        KaguraError: it did not go well, was refused, or was called off.
    """
    watched = WatchedTalk(talk, _display_for(surface, cockpit, talk))
    ending = asyncio.ensure_future(talk.wait())
    try:
        with interruptible():
            while not ending.done():
                watched.look()
                await asyncio.wait({ending}, timeout=TICK_SECONDS)
    except (asyncio.CancelledError, KeyboardInterrupt):
        talk.kill(person())
        forgive()
        task = asyncio.ensure_future(_see_off(watched, ending))
        _afterwards.add(task)
        task.add_done_callback(_afterwards.discard)
        raise _called_off(talk) from None
    error = ending.exception()
    watched.finish(error)
    if error is None:
        return ending.result()
    if isinstance(error, KaguraError) and watched.view.state == "stopped":
        run_id = talk.handle.run_id if talk.handle is not None else ""
        raise RunKilled(run_id, person(), error.message) from None
    raise error


class WatchedTalk:
    """Steps of a talk, and events of its run, on their way from the engine's thread to a display."""

    def __init__(self, talk: PluginTalk, display: AuditDisplay) -> None:
        self.view = AuditView()  # The audit, as far as it was taken
        self._display = display
        self._arrived: deque[PluginStep | AnyEvent] = deque()
        self._stops: list[Callable[[], None]] = []
        self._stops.append(talk.subscribe(self._hear))

    def look(self) -> None:
        """Take what has arrived and show it."""
        self._take()
        self._display.refresh(self.view)

    def finish(self, error: BaseException | None) -> None:
        """Take the rest, show the end, listen no longer."""
        for stop in self._stops:
            stop()
        self._take()
        if self.view.error is None and isinstance(error, KaguraError):
            self.view.failed(error)
        self.view.end()
        self._display.finish(self.view)

    def _take(self) -> None:
        while self._arrived:
            take(self.view, self._arrived.popleft())

    def _hear(self, step: PluginStep) -> None:
        # As a rule on the engine's thread.
        self._arrived.append(step)
        if isinstance(step, AuditBegun):
            self._stops.append(step.handle.subscribe(self._arrived.append))


async def _see_off(watched: WatchedTalk, ending: asyncio.Future[PluginRow]) -> None:
    """Let one that was called off say its last words, and show them."""
    await asyncio.wait({ending}, timeout=LINGER_SECONDS)
    watched.finish(ending.exception() if ending.done() and not ending.cancelled() else None)


def _called_off(talk: PluginTalk) -> RunKilled:
    if talk.handle is not None:
        return RunKilled(talk.handle.run_id, person())
    return RunKilled("", person(), f"It was called off by {person()}. Nothing was enabled.")


def _display_for(surface: Surface, cockpit: Cockpit, talk: PluginTalk) -> AuditDisplay:
    match surface:
        case Surface.NOTEBOOK:
            return LiveAudit(cockpit, talk)
        case Surface.TERMINAL | Surface.CONSOLE:
            return TextAudit(cockpit, talk, lines_of(surface))
        case Surface.HEADLESS | Surface.INSIDE:
            return StillAudit()


class StillAudit:
    """Nothing until the end; then the card once."""

    def refresh(self, view: AuditView) -> None:
        """Nothing: what is written now could not be changed later."""

    def finish(self, view: AuditView) -> None:
        """The whole card."""
        write_once(audit_bundle(view))


class LiveAudit:
    """The live card of a notebook: its buttons, its form, and the finished form at the end."""

    def __init__(self, cockpit: Cockpit, talk: PluginTalk) -> None:
        self._cockpit = cockpit
        self._talk = talk
        self._slot = Slot()
        self._view: AuditView | None = None
        self._opened = 0.0
        self._asked_at: float | None = None
        self._waited = False
        self._told = False

    def refresh(self, view: AuditView) -> None:
        """Send the parts that changed."""
        self._view = view
        if view.waiting and self._asked_at is None:
            self._asked_at = time.monotonic()
        if not self._slot.live:
            self._slot.open(
                LABEL, card_text(view), audit_parts(view, left=self._left(view)), self._pressed, audit_bundle(view)
            )
            self._opened = time.monotonic()
            return
        self._slot.show(audit_parts(view, left=self._left(view)))
        waits = view.waiting or bool(view.asks)
        # What a person is asked, and what they say, is in the file at once.
        self._slot.keep(lambda: audit_bundle(view), at_once=waits != self._waited)
        self._waited = waits
        self._tell_in_words(view)

    def finish(self, view: AuditView) -> None:
        """Replace the card."""
        self._view = view
        # Those who listen hear of the end from the live card.
        self._slot.show(audit_parts(view, left=0))
        self._slot.write(audit_bundle(view))

    def _left(self, view: AuditView) -> float:
        if view.form is None or self._asked_at is None:
            return 0.0
        return max(0.0, view.form.deadline - (time.monotonic() - self._asked_at))

    def _tell_in_words(self, view: AuditView) -> None:
        """A front end without widgets shows no buttons: say how to answer without them."""
        if self._told or not view.waiting or self._slot.heard or time.monotonic() - self._opened < WIDGET_SECONDS:
            return
        self._told = True
        name = view.subject.name if view.subject is not None else "NAME"
        how = f"Interrupt the cell, and give the values in the command: %kagura plugin enable {name} FIELD=VALUE."
        if view.form is not None and (ident := view.form.approval_id):
            how = f"In another kernel: %kagura approve {ident}, or %kagura deny {ident}."
        write_once(({"text/plain": f"? {title_words(view)}?\n  No buttons here? {how}"}, {}))

    # ------------------------------------------------------------------ buttons

    def _pressed(self, content: Mapping[str, Any]) -> None:
        view, act = self._view, content.get("act")
        if view is None:
            return
        if act == "stop":
            self._talk.kill(person())
        elif view.form is not None and content.get("id") == view.form.ident:
            self._answer(view, view.form.ident, content)
        elif (handle := self._talk.handle) is not None:
            press(self._cockpit, handle.run_id, content, self._slot.tell)

    def _answer(self, view: AuditView, ident: str, content: Mapping[str, Any]) -> None:
        question = next(step.question for step in self._talk.steps if isinstance(step, PluginAsked))
        choice, answers = content.get("answer"), _answers(content, question)
        if choice not in question.choices:
            self._slot.tell("This card has no such button.", ident)
            return
        try:
            question.answer(choice, answers, by=person(), via=VIA)
        except PluginNotConfigured as error:
            view.wrong(question.problems(answers))
            self._slot.show(audit_parts(view, left=self._left(view)))
            need = "field above needs" if len(error.missing) == 1 else "fields above need"
            self._slot.tell(f"Not sent: {len(error.missing)} {need} another value.", ident)
        except KaguraError as error:
            self._slot.tell(error.message, ident)
        else:
            if not question.approval_id:
                view.answered_here(refused=choice == question.choices[-1])


def _answers(content: Mapping[str, Any], question: PluginQuestion) -> dict[str, str]:
    """What was typed, for the fields that there are."""
    typed = content.get("fields")
    given = typed if isinstance(typed, dict) else {}
    return {field.name: str(given.get(field.name, "")) for field in question.fields}
