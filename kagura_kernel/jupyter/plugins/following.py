"""Following an audit or an enabling from a cell: awaited, never blocked on, called off with the cell.

It goes on in the engine's loop. The cell looks ten times a second at what has arrived, and wakes up as often, so that
its loop hears an interrupt in time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

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
from kagura_kernel.domain.errors import KaguraError, RunKilled
from kagura_kernel.domain.events import AnyEvent
from kagura_kernel.jupyter.cards.audit_view import AuditView, FormField, PluginForm, Subject
from kagura_kernel.jupyter.follow import LINGER_SECONDS, TICK_SECONDS, forgive, interruptible
from kagura_kernel.jupyter.surface import Surface, person

if TYPE_CHECKING:
    from collections.abc import Callable

    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.plugin_talk import PluginQuestion
    from kagura_kernel.plugins.configuring import Question
    from kagura_kernel.plugins.rows import PluginRow


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
            from kagura_kernel.jupyter.plugins.live import LiveAudit

            return LiveAudit(cockpit, talk)
        case Surface.TERMINAL | Surface.CONSOLE:
            from kagura_kernel.jupyter.plugins.in_text import TextAudit, lines_of

            return TextAudit(cockpit, talk, lines_of(surface))
        case Surface.HEADLESS | Surface.INSIDE:
            return StillAudit()


class StillAudit:
    """Nothing until the end; then the card once."""

    def refresh(self, view: AuditView) -> None:
        """Nothing: what is written now could not be changed later."""

    def finish(self, view: AuditView) -> None:
        """The whole card."""
        from kagura_kernel.jupyter.cards.audit_record import audit_bundle
        from kagura_kernel.jupyter.slots import write_once

        write_once(audit_bundle(view))
