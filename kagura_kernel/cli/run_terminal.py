"""A run in a terminal: each part once it is whole, below them one line about what goes on, and the questions.

The keyboard is listened to by the loop that follows the run, never by a thread that blocks: a question that is
answered elsewhere, or by its deadline, takes its prompt with it, and nobody's next line is swallowed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kagura_kernel.cli.run_outcome import check_text, waiting_changes
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.visible import visible
from kagura_kernel.journal.place import data_home
from kagura_kernel.jupyter.surface import person
from kagura_kernel.jupyter.terminal import forget_typed, meant, no_answer, prompt_of, question_text
from kagura_kernel.kit.redaction.redactor import redactor_in
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import clock_face, seconds, whole_cost
from kagura_kernel.views.approvals import verdict_words
from kagura_kernel.views.body import is_whole, item_text, telling_argument
from kagura_kernel.views.card import given_text
from kagura_kernel.views.changes import changes_text
from kagura_kernel.views.commits import commits_text
from kagura_kernel.views.head import box_line, box_notes, head_line
from kagura_kernel.views.parts import Ask, Call, Check, Item, Note, Passage
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import status_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from kagura_kernel.cockpit.memory import MemoryDesk
    from kagura_kernel.domain.approvals import Decision


_TOLD = 72
"""Columns that the line under way gives to what the agent is doing."""
_ENDED = 300
"""Characters of who stopped it."""

_RULES = "preparing, once for this data directory, what finds secrets"
_SHORT = 2.0
"""Seconds in which what was prepared before is read, so that nothing is said of it."""


class TerminalProgress:
    """Each part once it is whole, below them one line about what goes on, and the questions.

    Args:
        run_id: The run.
        decide: Hands an answer over.
        memory: Gives what the lessons of a plan are read from.
    """

    def __init__(self, run_id: str, decide: Decide, memory: Callable[[], MemoryDesk]) -> None:
        from rich.console import Console

        self._run_id = run_id
        self._console: Console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._live: Live | None = None
        self._told = ""
        self._began = time.monotonic()
        self._printed: set[str] = set()
        self._announced = False
        self._keyboard = Keyboard(decide, self._say, self._prompt, memory) if sys.stdin.isatty() else None

    def refresh(self, view: RunView) -> None:
        """Print what has become whole, put what is asked, and say what goes on."""
        self._announce(view)
        # What the agent says last may be its answer, which has a place of its own.
        last = _last_words(view)
        self._print_whole([item for item in view.items if item is not last])
        if self._keyboard is not None:
            waits = self._keyboard.open
            self._keyboard.look(view.pending)
            if waits and self._keyboard.open:
                return
        self._under_way(view)

    def finish(self, view: RunView) -> None:
        """The rest, how it ended, and what waits."""
        if self._keyboard is not None:
            self._keyboard.leave()
        self._stop_live()
        self._announce(view)
        self._print_whole([item for item in view.items if not _is_answer(item, view)], whole=False)
        for line in given_text(view):
            self._say(line, "dim")
        self._say(end_line(view), "bold")
        if view.branches:
            self._say(commits_text(view.branches.values()))
        if view.changes:
            self._say(changes_text(view.changes))
        if line := waiting_changes(view, self._run_id):
            self._say(line)

    def tell(self, text: str) -> None:
        """A line, above the one about what goes on."""
        self._say(text, "yellow")

    def deny(self) -> bool:
        """Say no to the question that waits; see `Keyboard.deny`."""
        return self._keyboard is not None and self._keyboard.deny()

    def _announce(self, view: RunView) -> None:
        if view.box is None or self._announced:
            return
        self._announced = True
        self._say(box_line(view), "dim")
        for note in box_notes(view, here=True):
            self._say(f"! {visible(note)}", "yellow")

    def _print_whole(self, items: list[Item], *, whole: bool = True) -> None:
        for item in items:
            if item.key not in self._printed and (not whole or is_whole(item)):
                self._printed.add(item.key)
                self._say(self._words(item), _style(item))

    def _words(self, item: Item) -> str:
        if isinstance(item, Ask) and self._keyboard is not None and self._keyboard.has_put(item):
            return f"  {verdict_words(item)}"
        return check_text(item.event) if isinstance(item, Check) else item_text(item)

    def _under_way(self, view: RunView) -> None:
        """One line that is written over; none while a question stands there, and none on a terminal that cannot."""
        if self._console.is_dumb_terminal or not self._console.is_terminal:
            return
        if self._keyboard is not None and self._keyboard.open:
            self._stop_live()
            return
        from rich.live import Live
        from rich.text import Text

        took = time.monotonic() - self._began
        # Before the rules of redaction are compiled no word of a run is shown or stored.
        waits = took > _SHORT and not redactor_in(data_home(os.environ)).ready
        told = under_way_line(view, took, waits=_RULES if waits else "")
        if self._live is not None and told == self._told:
            return
        self._told = told
        line = Text(told, style="dim", no_wrap=True, overflow="ellipsis")
        if self._live is None:
            self._live = Live(line, console=self._console, auto_refresh=False, transient=True)
            self._live.start(refresh=True)
        else:
            self._live.update(line, refresh=True)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        if self._keyboard is not None and self._keyboard.open:
            # The question's own lines stand where the line under way was.
            self._stop_live()
        self._console.print(Text(text, style=style))

    def _prompt(self, text: str) -> None:
        self._stop_live()
        from rich.text import Text

        self._console.print(Text(text, style="bold"), end="")
        sys.stderr.flush()


def under_way_line(view: RunView, took: float, *, waits: str = "") -> str:
    """What goes on, what it waits for, for how many seconds, and what it cost so far, on one line."""
    facts = [status_words(view).lower(), *([waits] if waits else [])]
    calls = [call for call in view.calls if call.finished is None]
    if calls:
        asked = calls[-1].asked
        facts.append(f"{one_line(asked.tool, 60)}: {telling_argument(asked.arguments, _TOLD)}")
    facts.append(clock_face(took))
    if view.usd is not None:
        facts.append(whole_cost(view.usd, view.children, view.children_usd))
    return " · ".join(facts)


def end_line(view: RunView) -> str:
    """How it ended, or who stopped it, which run and session it was, how long it took and what it cost."""
    facts = [head_line(view)]
    end = view.finished
    if end is not None:
        usd = end.reported_usd if end.reported_usd is not None else end.computed_usd
        cost = whole_cost(usd, view.children, view.children_usd)
        if end.status == "killed":
            facts = [visible(one_line(end.error, _ENDED)).removesuffix(".")]
        else:
            facts.append(end.run_id)
        facts += [f"session {end.session_id}", seconds(end.duration), cost]
    return " · ".join(filter(None, facts))


def _is_answer(item: Item, view: RunView) -> bool:
    """Whether this is what standard output says anyway."""
    return (
        isinstance(item, Passage)
        and view.finished is not None
        and item is _last_words(view)
        and item.text.strip() == view.finished.text.strip()
    )


def _last_words(view: RunView) -> Passage | None:
    """What the agent says after all that it does; its work is tried out behind that."""
    last = next((item for item in reversed(view.items) if not isinstance(item, Check)), None)
    return last if isinstance(last, Passage) else None


def _style(item: Item) -> str:
    match item:
        case Note(grave=True):
            return "red"
        case Note():
            return "yellow"
        case Call():
            return "cyan" if item.finished is None or not item.finished.exit_code else "red"
        case _:
            return ""


VIA = "terminal"


Decide = Callable[..., "Decision"]
"""Answers an approval; as `Cockpit.decide`."""


@dataclass(eq=False)
class Keyboard:
    """Puts the questions of one run, on the loop that follows it."""

    decide: Decide  # Hands an answer over
    say: Callable[[str], None]  # Prints lines on the terminal
    prompt: Callable[[str], None]  # Prints what stands before the cursor
    memory: Callable[[], MemoryDesk]  # Gives what the lessons of a plan are read from
    _asking: Ask | None = None
    _put: set[str] = field(default_factory=set)
    _answered: set[str] = field(default_factory=set)

    @property
    def open(self) -> bool:
        """Whether a question waits for a line."""
        return self._asking is not None

    def has_put(self, ask: Ask) -> bool:
        """Whether this question has stood on the screen."""
        return ask.key in self._put

    def look(self, pending: Sequence[Ask]) -> None:
        """Put the first of these that nobody has answered yet; take away the one that no longer waits."""
        waiting = [ask for ask in pending if ask.key not in self._answered]
        if self._asking is not None and all(ask.key != self._asking.key for ask in waiting):
            self._hush()
        if self._asking is None and waiting and _in_foreground():
            self._put_question(waiting[0], len(waiting) - 1)

    def deny(self) -> bool:
        """Say no to the question that waits for a line; False where there is none."""
        if self._asking is None:
            return False
        ask = self._asking
        self._hush()
        self._hand_over(ask, allow=False)
        return True

    def leave(self) -> None:
        """Listen no longer."""
        if self._asking is not None:
            self._hush()

    def _put_question(self, ask: Ask, more: int) -> None:
        self._asking = ask
        first = ask.key not in self._put
        self._put.add(ask.key)
        if first:
            self.say(question_text(ask, self.memory, more))
            sys.stderr.write("\a")
        # What was typed before the question was there is no answer to it.
        forget_typed()
        self.prompt(prompt_of(ask))
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._typed)

    def _hush(self) -> None:
        """Hear no more; the next line begins below the prompt."""
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._asking = None
        self.say("")

    def _typed(self) -> None:
        try:
            line = sys.stdin.readline()
        except OSError:
            # The terminal is gone, and nobody with it.
            line = ""
        ask = self._asking
        if ask is None:
            return
        answer = meant(ask, line.strip())
        if answer is None:
            self.say(no_answer(ask, line.strip()))
            self.prompt(prompt_of(ask))
            return
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._asking = None
        if not line.endswith("\n"):
            # The end of the input moves no cursor.
            self.say("")
        self._hand_over(ask, allow=answer["act"] != "deny", answer=answer.get("answer", ""))

    def _hand_over(self, ask: Ask, *, allow: bool, answer: str = "") -> None:
        self._answered.add(ask.key)
        try:
            self.decide(ask.request.approval_id, allow, by=person(), via=VIA, answer=answer)
        except KaguraError as error:
            self.say(f"{error.code}: {error.message}")


def _in_foreground() -> bool:
    """Whether the terminal listens to us: a job in the background would be stopped for reading from it."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, termios.error, ValueError):
        # A terminal that does not say who it listens to is read all the same.
        return True
