"""An audit or an enabling in a console or a terminal: the report as text, prompts for the form, lines as answers.

The conversation goes on in a thread of its own, where it may wait. Whatever it prints and asks for passes through the
cell's thread, the only one that may speak to a console.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kagura_kernel.cockpit import plugin_talk
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.plugin_talk import TextSurface, enabled_text, talk_in_text
from kagura_kernel.domain.approval_content import plainly
from kagura_kernel.domain.errors import KaguraError, PluginNotConfigured, RunKilled
from kagura_kernel.domain.events import AnyEvent
from kagura_kernel.jupyter.follow import TICK_SECONDS, interruptible, see_off
from kagura_kernel.jupyter.live_run import WIDGET_SECONDS, Display
from kagura_kernel.jupyter.slots import Slot, press, write_once
from kagura_kernel.jupyter.surface import Surface, person
from kagura_kernel.jupyter.terminal import ELSEWHERE, ConsoleLines, forget_typed, ring
from kagura_kernel.plugins.configuration import Question
from kagura_kernel.plugins.manager import PluginRow
from kagura_kernel.views.audit import AuditView, FormField, PluginForm, Subject
from kagura_kernel.views.audit_card import LABEL, audit_bundle, audit_parts, card_text, report_lines, title_words
from kagura_kernel.views.parts import Ask

VIA = "cell"

_LAST_WORDS_SECONDS = 5.0


class Lines(Protocol):
    """Where a person types."""

    def ask(self, prompt: str) -> None:
        """Ask for a line; what was typed before is no answer."""
        ...

    def take(self) -> str | None:
        """The line that was typed; None while there is none. Raises `EOFError` when there will be none."""
        ...


class TerminalLines:
    """Those of the terminal that this process runs in."""

    def ask(self, prompt: str) -> None:
        """Prompt."""
        forget_typed()
        sys.stdout.write(prompt)
        sys.stdout.flush()

    def take(self) -> str | None:
        """The line, once it was ended."""
        if not select.select([sys.stdin], [], [], 0)[0]:
            return None
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")


def lines_of(surface: Surface) -> Lines:
    """Those of the place where the running cell is shown."""
    if surface is Surface.CONSOLE:
        return ConsoleLines.of_this_cell()
    return TerminalLines()


class TextAudit:
    """Carries a talk on in text."""

    def __init__(self, cockpit: Cockpit, talk: plugin_talk.PluginTalk, lines: Lines) -> None:
        self._cockpit = cockpit
        self._talk = talk
        self._lines = lines
        self._said: deque[str] = deque()
        self._wanted: deque[_Wanted] = deque()
        self._asking: _Wanted | Ask | None = None
        self._put: set[str] = set()
        self._over = False
        self._thread = threading.Thread(target=self._converse, name="kagura plugin prompts", daemon=True)
        self._thread.start()

    def refresh(self, view: AuditView) -> None:
        """Print what was said, ask what is asked, take the line that was typed."""
        self._print()
        if self._asking is not None:
            self._listen(view)
        elif self._wanted:
            self._asking = self._wanted.popleft()
            self._prompt(self._asking.prompt)
        elif new := [ask for ask in view.asks if ask.key not in self._put]:
            self._asking = new[0]
            self._put.add(new[0].key)
            self._say(plainly(new[0].request.detail or new[0].request.title))
            options = new[0].request.options
            self._prompt(f"{', '.join(f'({option[:1].lower()}){option[1:]}' for option in options)}: ")

    def finish(self, view: AuditView) -> None:
        """The last words; a prompt that waits is taken away."""
        self._over = True
        if self._asking is not None and view.state != "stopped":
            self._say(f"\n{ELSEWHERE}")
        self._answered(None)
        while self._wanted:
            self._wanted.popleft().end()
        self._thread.join(_LAST_WORDS_SECONDS)
        self._print()

    # ------------------------------------------------------------- the cell's thread

    def _listen(self, view: AuditView) -> None:
        asking = self._asking
        ended = view.ended or (view.decision is not None if isinstance(asking, _Wanted) else asking not in view.asks)
        if ended:
            self._say(f"\n{ELSEWHERE}")
            self._answered(None)
            return
        try:
            line = self._lines.take()
        except EOFError:
            self._answered(None)
            return
        if line is not None:
            self._answered(line)

    def _answered(self, line: str | None) -> None:
        """Hand a line over; None when there will be none."""
        asking, self._asking = self._asking, None
        if isinstance(asking, _Wanted):
            asking.end(line)
        elif asking is not None and line is not None:
            self._decide(asking, line)

    def _decide(self, ask: Ask, line: str) -> None:
        handle = self._talk.handle
        if handle is None:
            return
        chosen = plugin_talk.option_of(line, ask.request.options)
        if not chosen:
            self._say(plugin_talk.NO_ANSWER)
            self._put.discard(ask.key)
            return
        content = {"act": "answer", "id": ask.request.approval_id, "answer": chosen}
        press(self._cockpit, handle.run_id, content, lambda text, _about: self._say(text))

    def _prompt(self, text: str) -> None:
        ring()
        self._lines.ask(text)

    def _print(self) -> None:
        while self._said:
            self._say(self._said.popleft())

    def _say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    # ------------------------------------------------------------- the thread that waits

    def _converse(self) -> None:
        def report(done: plugin_talk.AuditDone) -> None:
            about = Subject(done.audit.plugin, config=done.config)
            self._said.append("\n".join(report_lines(done.audit, about, cached=False)))

        surface = TextSurface(self._said.append, self._ask, report, person(), VIA, hears_silence=False)
        # Whoever follows the talk raises what ended it.
        with contextlib.suppress(KaguraError):
            talk_in_text(self._talk, surface)

    def _ask(self, prompt: str) -> str:
        wanted = _Wanted(prompt)
        self._wanted.append(wanted)
        if self._over:
            raise EOFError
        return wanted.wait()


class _Wanted:
    """A line that somebody waits for."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self._line: str | None = None
        self._here = threading.Event()

    def end(self, line: str | None = None) -> None:
        """Here it is; None when there will be none."""
        self._line = line
        self._here.set()

    def wait(self) -> str:
        """The line; raises `EOFError` when there will be none."""
        self._here.wait()
        if self._line is None:
            raise EOFError
        return self._line


def take(view: AuditView, what: plugin_talk.PluginStep | AnyEvent) -> None:
    """Tell a view one step, or one event of the run."""
    match what:
        case plugin_talk.PluginExamined(row=row):
            view.examined(subject_of(row))
        case plugin_talk.AuditBegun() | plugin_talk.AuditorSilent():
            pass  # the run's own events tell of it
        case plugin_talk.AuditDone(audit=audit, cached=cached, config=config):
            view.reported(audit, cached=cached, config=config)
        case plugin_talk.PluginAsked(question=question):
            view.asked(form_of(question))
        case plugin_talk.PluginEnabled(row=row):
            view.went_well(subject_of(row), enabled_text(what))
        case plugin_talk.PluginFailure(error=error):
            view.failed(error)
        case _:
            view.apply(what)


def subject_of(row: PluginRow) -> Subject:
    """A plugin, as cards name it."""
    return Subject(
        row.name, row.version, row.description, row.place, row.signed_by, row.modules, row.config, row.approved
    )


def form_of(question: plugin_talk.PluginQuestion) -> PluginForm:
    """A question, as cards ask it."""
    fields = tuple(map(_field_of, question.fields))
    return PluginForm(question.approval_id, question.choices, fields, question.deadline)


def _field_of(question: Question) -> FormField:
    field = question.field
    default = None if field.default is None else question.shown_default
    return FormField(question.name, field.type, field.description, default, field.minimum, field.maximum)


async def follow_talk(cockpit: Cockpit, talk: plugin_talk.PluginTalk, surface: Surface) -> PluginRow:
    """Show it until it ends, and return the plugin as it is then.

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
        see_off(ending, watched.finish)
        told = "" if talk.handle is not None else f"It was called off by {person()}. Nothing was enabled."
        raise RunKilled(_run_of(talk), person(), told) from None
    error = ending.exception()
    watched.finish(error)
    if error is None:
        return ending.result()
    if isinstance(error, KaguraError) and watched.view.state == "stopped":
        raise RunKilled(_run_of(talk), person(), error.message) from None
    raise error


def _run_of(talk: plugin_talk.PluginTalk) -> str:
    return talk.handle.run_id if talk.handle is not None else ""


class WatchedTalk:
    """Steps of a talk, and events of its run, on their way from the engine's thread to a display."""

    def __init__(self, talk: plugin_talk.PluginTalk, display: Display[AuditView]) -> None:
        self.view = AuditView()  # The audit, as far as it was taken
        self._display = display
        self._arrived: deque[plugin_talk.PluginStep | AnyEvent] = deque()
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

    def _hear(self, step: plugin_talk.PluginStep) -> None:
        # As a rule on the engine's thread.
        self._arrived.append(step)
        if isinstance(step, plugin_talk.AuditBegun):
            self._stops.append(step.handle.subscribe(self._arrived.append))


def _display_for(surface: Surface, cockpit: Cockpit, talk: plugin_talk.PluginTalk) -> Display[AuditView]:
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

    def __init__(self, cockpit: Cockpit, talk: plugin_talk.PluginTalk) -> None:
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
        question = next(step.question for step in self._talk.steps if isinstance(step, plugin_talk.PluginAsked))
        choice, typed = content.get("answer"), content.get("fields")
        given = typed if isinstance(typed, dict) else {}
        answers = {field.name: str(given.get(field.name, "")) for field in question.fields}
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
