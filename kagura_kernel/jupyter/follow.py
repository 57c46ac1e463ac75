"""Following a run from a cell: awaited, never blocked on, stopped with the cell.

The run lives in its own loop. The cell looks at it ten times a second, which is also how often the display changes, and
which makes sure that the cell's loop wakes up in time to hear an interrupt.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kagura_kernel.domain.events import Event
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.jupyter.cards.view import RunView
from kagura_kernel.jupyter.errors import killed
from kagura_kernel.jupyter.live_run import RunDisplay
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.cockpit.handles import RunHandle

TICK_SECONDS = 0.1
LINGER_SECONDS = 15.0
"""How long the card of an interrupted run waits for the run's last words."""

_afterwards: set[asyncio.Task[None]] = set()


async def follow(handle: RunHandle, display: RunDisplay, *, foreground: bool = True) -> RunOutcome:
    """Show a run until it ends, and return how it ended.

    Args:
        handle: The run.
        display: Where it is shown.
        foreground: Whether a cell waits for it, so that an interrupt means this run.

    Raises:
        RunKilled: the cell was interrupted. The run is being stopped; its card is finished in the background.
    """
    watched = Watched(handle, display)
    ending = asyncio.ensure_future(handle.wait())
    try:
        with interruptible() if foreground else contextlib.nullcontext():
            while not ending.done():
                await asyncio.wait({ending}, timeout=TICK_SECONDS)
                watched.look()
    except (asyncio.CancelledError, KeyboardInterrupt):
        handle.kill(person())
        forgive()
        task = asyncio.ensure_future(_see_off(watched, ending))
        _afterwards.add(task)
        task.add_done_callback(_afterwards.discard)
        raise killed(handle.run_id, person(), changed=False) from None
    error = ending.exception()
    watched.finish(error)
    if error is not None:
        raise error
    return ending.result()


class Watched:
    """A run's events on their way from its thread to its display."""

    def __init__(self, handle: RunHandle, display: RunDisplay) -> None:
        self.view = RunView()
        self._display = display
        self._arrived: deque[Event] = deque()
        self._stop = handle.subscribe(self._arrived.append)

    def look(self) -> None:
        """Take what has arrived and show it."""
        self.take()
        self._display.refresh(self.view)

    def finish(self, error: BaseException | None = None) -> None:
        """Take the rest, show the end, listen no longer. A run without last words of its own is shown as lost.

        Of a run that could not even begin its record there is nothing to show; its error says everything.
        """
        self._stop()
        self.take()
        if self.view.started is None:
            return
        if error is not None:
            self.view.give_up(error)
        self._display.finish(self.view)

    def take(self) -> None:
        """Take what has arrived, without showing it."""
        while self._arrived:
            self.view.apply(self._arrived.popleft())


async def _see_off(watched: Watched, ending: asyncio.Future[RunOutcome]) -> None:
    """Let an interrupted run say its last words, and show them."""
    await asyncio.wait({ending}, timeout=LINGER_SECONDS)
    watched.finish(ending.exception() if ending.done() and not ending.cancelled() else None)


def forgive() -> None:
    """The cancellation has been answered: the task that runs the cell goes on to show the error."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """In a terminal, let Ctrl-C cancel the cell instead of tearing its loop down; a kernel does so by itself."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    main = threading.current_thread() is threading.main_thread()
    if task is None or not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
