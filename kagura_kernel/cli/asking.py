"""Questions of runs at the keyboard of a terminal: one at a time, answered by a line.

The keyboard is listened to by the loop that follows the run, never by a thread that blocks: a question that is
answered elsewhere, or by its deadline, takes its prompt with it, and nobody's next line is swallowed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.cockpit.memory import MemoryDesk
    from kagura_kernel.domain.approvals import Decision
    from kagura_kernel.views.parts import Ask

VIA = "terminal"


class Decide(Protocol):
    """Answers an approval; as `Cockpit.decide`."""

    def __call__(self, approval_id: str, allow: bool, *, by: str, via: str, answer: str = "") -> Decision:
        """Answer it; raises `ApprovalError` where somebody, or the deadline, was faster."""
        ...


def somebody_is_here() -> bool:
    """Whether a question could be put and answered: both the keyboard and the screen belong to a terminal."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def _is_terminal(stream: object) -> bool:
    isatty = getattr(stream, "isatty", None)
    return bool(isatty is not None and isatty())


class Keyboard:
    """Puts the questions of one run, on the loop that follows it.

    Args:
        decide: Hands an answer over.
        say: Prints lines on the terminal.
        prompt: Prints what stands before the cursor.
        memory: Gives what the lessons of a plan are read from.
    """

    def __init__(
        self,
        decide: Decide,
        say: Callable[[str], None],
        prompt: Callable[[str], None],
        memory: Callable[[], MemoryDesk],
    ) -> None:
        self._decide = decide
        self._memory = memory
        self._say = say
        self._prompt = prompt
        self._asking: Ask | None = None
        self._put: set[str] = set()
        self._answered: set[str] = set()

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
        from kagura_kernel.jupyter.terminal import forget_typed, prompt_of, question_text

        self._asking = ask
        first = ask.key not in self._put
        self._put.add(ask.key)
        if first:
            self._say(question_text(ask, self._memory, more))
            sys.stderr.write("\a")
        # What was typed before the question was there is no answer to it.
        forget_typed()
        self._prompt(prompt_of(ask))
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._typed)

    def _hush(self) -> None:
        """Hear no more; the next line begins below the prompt."""
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._asking = None
        self._say("")

    def _typed(self) -> None:
        from kagura_kernel.jupyter.terminal import meant, no_answer, prompt_of

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
            self._say(no_answer(ask, line.strip()))
            self._prompt(prompt_of(ask))
            return
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._asking = None
        if not line.endswith("\n"):
            # The end of the input moves no cursor.
            self._say("")
        self._hand_over(ask, allow=answer["act"] != "deny", answer=answer.get("answer", ""))

    def _hand_over(self, ask: Ask, *, allow: bool, answer: str = "") -> None:
        self._answered.add(ask.key)
        try:
            self._decide(ask.request.approval_id, allow, by=person(), via=VIA, answer=answer)
        except KaguraError as error:
            self._say(f"{error.code}: {error.message}")


def _in_foreground() -> bool:
    """Whether the terminal listens to us: a job in the background would be stopped for reading from it."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, termios.error, ValueError):
        # A terminal that does not say who it listens to is read all the same.
        return True
