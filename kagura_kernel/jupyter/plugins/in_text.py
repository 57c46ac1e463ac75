"""An audit or an enabling in a console or a terminal: the report as text, prompts for the form, lines as answers.

The conversation goes on in a thread of its own, where it may wait. Whatever it prints and asks for passes through the
cell's thread, the only one that may speak to a console.
"""

from __future__ import annotations

import contextlib
import select
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol

from kagura_kernel.cockpit.plugin_prompting import TextSurface, talk_in_text
from kagura_kernel.domain.asked import plainly
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.jupyter.answers import press
from kagura_kernel.jupyter.cards.audit_record import report_lines
from kagura_kernel.jupyter.cards.audit_view import Subject
from kagura_kernel.jupyter.console import ConsoleLines
from kagura_kernel.jupyter.surface import Surface, person
from kagura_kernel.jupyter.terminal import forget_typed, ring

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.plugin_talk import AuditDone, PluginTalk
    from kagura_kernel.jupyter.cards.audit_view import AuditView
    from kagura_kernel.views.parts import Ask

VIA = "cell"
ELSEWHERE = "Answered elsewhere, or too late. Press Enter to go on."

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
    """Carries a talk on in text.

    Args:
        cockpit: Where answers about the audit's run go.
        talk: The audit or the enabling.
        lines: Where a person types.
    """

    def __init__(self, cockpit: Cockpit, talk: PluginTalk, lines: Lines) -> None:
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
            self._prompt(f"{_choices(new[0])}: ")

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
        chosen = [
            option
            for option in ask.request.options
            if line.strip() and option.casefold().startswith(line.strip().casefold())
        ]
        if len(chosen) != 1:
            self._say("That is none of the answers.")
            self._put.discard(ask.key)
            return
        content = {"act": "answer", "id": ask.request.approval_id, "answer": chosen[0]}
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
        surface = TextSurface(self._said.append, self._ask, self._report, person(), VIA, hears_silence=False)
        # Whoever follows the talk raises what ended it.
        with contextlib.suppress(KaguraError):
            talk_in_text(self._talk, surface)

    def _ask(self, prompt: str) -> str:
        wanted = _Wanted(prompt)
        self._wanted.append(wanted)
        if self._over:
            raise EOFError
        return wanted.wait()

    def _report(self, done: AuditDone) -> None:
        about = Subject(done.audit.plugin, config=done.config)
        self._said.append("\n".join(report_lines(done.audit, about, cached=False)))


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


def _choices(ask: Ask) -> str:
    return ", ".join(f"({option[:1].lower()}){option[1:]}" for option in ask.request.options)
