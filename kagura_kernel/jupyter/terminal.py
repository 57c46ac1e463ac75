"""A run in a terminal: plain text as it comes, approvals answered at the keyboard."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.memory import has_lessons, lessons_told
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.slots import press
from kagura_kernel.patterns.plans import read_answer
from kagura_kernel.render.figures import counted
from kagura_kernel.views.approvals import chooses, keys, verdict_words, without_answer
from kagura_kernel.views.body import is_whole, item_text
from kagura_kernel.views.card import given_text
from kagura_kernel.views.changes import changes_text
from kagura_kernel.views.commits import commits_text
from kagura_kernel.views.head import box_line, box_notes, head_line
from kagura_kernel.views.parts import Ask, Item, Printout
from kagura_kernel.views.run import RunView

if TYPE_CHECKING:
    from collections.abc import Callable

    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.memory import MemoryDesk


ELSEWHERE = "Answered elsewhere, or too late. Press Enter to go on."

_YES = {"y", "yes", "a", "allow"}
_NO = {"", "n", "no", "d", "deny"}


class TerminalDisplay:
    """Prints each part once it is whole, and asks what has to be asked.

    The keyboard is listened to by the cell's loop, not by a thread in `input()`: an approval that is decided elsewhere,
    or by its deadline, takes nobody's next line.
    """

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        self._cockpit = cockpit
        self._run_id = run_id
        self._printed: set[str] = set()
        self._asking: Ask | None = None
        # Questions that were printed, and those that were answered here: neither is put a second time.
        self._put: set[str] = set()
        self._answers: set[str] = set()
        self._announced = False

    def refresh(self, view: RunView) -> None:
        """Say where it runs, print what has become whole, ask the first open approval."""
        if view.box is not None and not self._announced:
            self._announced = True
            self._say(box_line(view))
            for note in box_notes(view, here=True):
                self._say(f"! {visible(note)}")
        waiting = [ask for ask in view.pending if ask.key not in self._answers]
        # What was decided elsewhere takes its prompt with it before anything else is printed.
        if self._asking is not None and self._asking not in waiting:
            self._ask(None)
        for item in view.items:
            # What code prints is whole when its run is over.
            if item.key not in self._printed and is_whole(item) and not isinstance(item, Printout):
                self._printed.add(item.key)
                self._say(self._words(item))
        if self._asking is None:
            self._ask(next(iter(waiting), None), len(waiting) - 1)

    def finish(self, view: RunView) -> None:
        """The rest, how it ended, and the changes."""
        self.leave()
        for item in view.items:
            if item.key not in self._printed:
                self._say(self._words(item))
        for line in given_text(view):
            self._say(line)
        self._say(head_line(view))
        if view.branches:
            self._say(commits_text(view.branches.values()))
        if view.changes:
            self._say(changes_text(view.changes))
            self._say(f"`%kagura changes {self._run_id}` shows them, `%kagura apply {self._run_id}` applies them.")

    def leave(self) -> None:
        """Take away the prompt that waits for a line: nobody looks on any more."""
        if self._asking is not None:
            self._ask(None)

    def _ask(self, ask: Ask | None, more: int = 0) -> None:
        """Put this question, or with None take the one away that waits for a line."""
        if self._asking is not None:
            self._hush()
        self._asking = ask
        if ask is not None:
            if ask.key not in self._put:
                ring()
            self._put.add(ask.key)
            self._say(question_text(ask, lambda: self._cockpit.memory, more))
            self._listen(ask)

    def _words(self, item: Item) -> str:
        """What is to be said of a part that is whole; of a question that was put here only how it ended."""
        if isinstance(item, Ask) and item.key in self._put:
            return f"  {verdict_words(item)}"
        return item_text(item)

    def _listen(self, ask: Ask) -> None:
        """Prompt, and hear the line that is typed then. What was typed before the question is no answer to it."""
        forget_typed()
        self._prompt(prompt_of(ask))
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._typed)

    def _hush(self) -> None:
        """Hear no more, and go over the prompt: nobody has to answer it."""
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._say("\n" if os.environ.get("TERM") in {None, "", "dumb"} else "\r\x1b[K", end="")

    def _prompt(self, text: str) -> None:
        self._say(text, end="")

    def _typed(self) -> None:
        # The end of the input is no line, and the last word there will be.
        if self._answered(sys.stdin.readline()):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _answered(self, line: str) -> bool:
        """Hand a typed line over; False where it was none of the answers, and was asked for again."""
        ask = self._asking
        if ask is None:
            return True
        answer = meant(ask, line.strip())
        if answer is None:
            self._say(no_answer(ask, line.strip()))
            self._prompt(prompt_of(ask))
            return False
        self._asking = None
        self._answers.add(ask.key)
        content = answer | {"id": ask.request.approval_id}
        press(self._cockpit, self._run_id, content, lambda text, _about: self._say(text))
        return True

    def _say(self, text: str, end: str = "\n") -> None:
        sys.stdout.write(text + end)
        sys.stdout.flush()


def ring() -> None:
    """Sound the terminal's bell, where the output is one; moves nothing on the screen."""
    if sys.stdout.isatty():
        sys.stdout.write("\a")
        sys.stdout.flush()


def forget_typed() -> None:
    """Drop what waits to be read from the keyboard."""
    with contextlib.suppress(termios.error, OSError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def question_text(ask: Ask, memory: Callable[[], MemoryDesk], more: int = 0) -> str:
    """A question in full, for whom it is, what it would have trusted, and how many more wait behind it. Blocks."""
    request = ask.request
    lines = [item_text(ask).rsplit("\n", 1)[0]]
    if request.lineage:
        above = "".join(f", which works for {one}" for one in reversed(request.lineage))
        lines.append(f"  that is {visible(request.run_id)}{visible(above)}")
    if _is_plan(ask):
        lines += [f"  {visible(line)}" for line in lessons_told(memory, request.arguments)]
    if more > 0:
        lines.append(f"  {counted(more, 'more question')} behind this one")
    return "\n".join(lines)


def no_answer(ask: Ask, line: str) -> str:
    """What is said to a line that is none of the answers."""
    if not _is_plan(ask):
        return "That is none of the answers."
    lessons = ", `with lessons`, alone or behind one of these" if has_lessons(ask.request.arguments) else ""
    why = _unread(line)
    return f"{why} The answers are y, an amount such as `0.50`, `no budget`{lessons}, and n."


def prompt_of(ask: Ask) -> str:
    """What can be typed, and until when."""
    return f"{_offer(ask)} ({ask.request.deadline:.0f} s, {without_answer(ask.request)}): "


def _offer(ask: Ask) -> str:
    if _is_question(ask):
        return "Your answer, empty for none"
    if chooses(ask.request):
        return f"Allow it for {keys(ask.request)[0]}"
    if _is_plan(ask):
        begin = "Go on?" if "resumes" in ask.request.arguments else "Begin?"
        lessons = " / with lessons" if has_lessons(ask.request.arguments) else ""
        return f"{begin} [y / an amount / no budget{lessons} / N]"
    return "Allow it once? [y/N]" if ask.request.subject == "host_command" else "Allow it? [y/N]"


def meant(ask: Ask, line: str) -> dict[str, str] | None:
    """What a typed line does; an empty one is a no, and None is what cannot be told to be one or the other."""
    if _is_question(ask):
        return {"act": "answer" if line else "deny", "answer": line}
    word = line.lower()
    if word in _NO:
        return {"act": "deny"}
    if chooses(ask.request):
        return keys(ask.request)[1].get(word)
    if _is_plan(ask):
        answer = _without_yes(line)
        return {"act": "allow", "answer": answer} if not _unread(answer) else None
    return {"act": "allow"} if word in _YES else None


def _is_plan(ask: Ask) -> bool:
    return ask.request.subject == "plan"


def _without_yes(line: str) -> str:
    """What a line says beside its yes: nothing takes the budget that is proposed."""
    first, _, rest = line.partition(" ")
    return rest.strip() if first.rstrip(",").lower() in _YES else line


def _unread(line: str) -> str:
    """Why an answer to a plan means nothing; empty where it does. It is read as by whoever asked."""
    try:
        read_answer(_without_yes(line), None)
    except ValueError as error:
        return str(error)
    return ""


def _is_question(ask: Ask) -> bool:
    return ask.request.subject == "question"


_END_OF_INPUT = "\x04"


class ConsoleDisplay(TerminalDisplay):
    """A terminal's display whose lines come as messages."""

    def __init__(self, cockpit: Cockpit, run_id: str, lines: ConsoleLines) -> None:
        super().__init__(cockpit, run_id)
        self._lines = lines

    def refresh(self, view: RunView) -> None:
        """Print what is new, and take the line that was sent."""
        super().refresh(view)
        if self._asking is not None and (line := self._lines.take()) is not None:
            self._answered(line)

    def _listen(self, ask: Ask) -> None:
        self._prompt(prompt_of(ask))

    def _hush(self) -> None:
        # The console still waits for its line; what is typed there is dropped.
        self._say(ELSEWHERE)

    def _prompt(self, text: str) -> None:
        self._lines.ask(text)


class ConsoleLines:
    """The kernel's way to ask the console of the request that runs now for one line, without waiting."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._parent = kernel.get_parent("shell")
        # Replies find their way by the identity of the console's socket, which the request came with.
        self._ident = kernel._get_shell_context_var(kernel._shell_parent_ident)  # noqa: SLF001  # as its `raw_input`

    @classmethod
    def of_this_cell(cls) -> ConsoleLines:
        """Those of the console that sent the cell that runs now."""
        from IPython.core.getipython import get_ipython

        shell: Any = get_ipython()
        return cls(shell.kernel)

    def ask(self, prompt: str) -> None:
        """Ask for a line."""
        sys.stdout.flush()
        # What was typed before the question was there is no answer to it.
        while self.take() is not None:
            pass
        content = {"prompt": prompt, "password": False}
        socket = self._kernel.stdin_socket
        self._kernel.session.send(socket, "input_request", content, self._parent, ident=self._ident)

    def take(self) -> str | None:
        """The line that was sent, empty at the end of the input; None while there is none."""
        import zmq

        # A message that is not signed by this kernel's clients is no answer.
        with contextlib.suppress(ValueError):
            _, reply = self._kernel.session.recv(self._kernel.stdin_socket, mode=zmq.NOBLOCK)
            if reply is not None:
                value = str(reply["content"].get("value", ""))
                return "" if value == _END_OF_INPUT else value
        return None
