"""What Ctrl-C, a SIGTERM and a terminal that closes do to a run that a command follows."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kagura_kernel.jupyter.surface import person

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAID = {signal.SIGINT: "Stopping; Ctrl-C again leaves at once.", signal.SIGTERM: "Stopping, as asked by SIGTERM."}


class Stoppable(Protocol):
    """A run; as `RunHandle`."""

    def kill(self, by: str) -> None:
        """Stop it; returns at once."""
        ...


class Stopping:
    """The first signal stops the run calmly, the second one ends the process.

    Args:
        handle: The run.
        deny: Says no to the question that waits at the keyboard; False where there is none. Ctrl-C means that first.
        tell: Says something to the person.
    """

    def __init__(self, handle: Stoppable, deny: Callable[[], bool], tell: Callable[[str], None]) -> None:
        self._handle = handle
        self._deny = deny
        self._tell = tell
        self.number: signal.Signals | None = None  # The signal that stopped the run; None while none has

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear them; on the loop of the calling task. What is ignored stays so, as `nohup` and scripts want it."""
        loop = asyncio.get_running_loop()
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in heard:
            loop.add_signal_handler(number, self.hear, number)
        try:
            yield
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    def hear(self, number: signal.Signals) -> None:
        """Act on one."""
        if self.number is not None:
            leave_at_once(number)
        if number is signal.SIGINT and self._deny():
            return
        self.number = number
        # Whoever closed the terminal reads nothing any more.
        if number in _SAID:
            self._tell(_SAID[number])
        self._handle.kill(person())


def leave_at_once(number: signal.Signals) -> None:
    """End this process without another word; never returns.

    Nothing stays behind: boxes end with their pipes, and commands of the host with whoever keeps them. What was leased
    is given back, and the run marked as lost, by the next process that looks.
    """
    if sys.stderr.isatty():
        # The cursor was hidden while a line was written over.
        os.write(2, b"\x1b[?25h\n")
    os._exit(ended_by(number))


def ended_by(number: signal.Signals) -> int:
    """The exit code that shells know for a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number
