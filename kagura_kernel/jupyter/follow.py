"""Following a run from a cell: awaited, never blocked on, stopped with the cell.

The run lives in its own loop. The cell shows what arrives at once, but not more than ten times a second, and the last
state always. While a cell waits it also wakes up ten times a second, so that its loop hears an interrupt in time; a
display that nobody waits for wakes up when there is something to show.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kagura_kernel.domain.errors import KaguraError, RunKilled
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, ChildStarted, Event
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.jupyter.surface import person
from kagura_kernel.views.run import RunView

if TYPE_CHECKING:
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.jupyter.live_run import RunDisplay


TICK_SECONDS = 0.1
"""The shortest time between two looks of a display, and the longest in which a waiting cell hears an interrupt."""
IDLE_SECONDS = 1.0
"""How often a display in the background looks when nothing arrives: some things are said after a while."""
STOP_SECONDS = 1.0
"""How long an interrupted cell waits for its run to be over, before it ends without that."""
LINGER_SECONDS = 15.0
"""How long the card of an interrupted run waits for the run's last words."""

_afterwards: set[asyncio.Task[None]] = set()


class Told(Protocol):
    """Whatever tells the events of a run: its handle, or a feed of it."""

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Hear everything; returns how to stop listening."""
        ...


Attach = Callable[[str], Told]
"""Finds whatever tells the events of a run by its id; raises `RunUnknown`."""


async def follow(handle: RunHandle, display: RunDisplay, attach: Attach, *, foreground: bool = True) -> RunOutcome:
    """Show a run until it ends, and return how it ended.

    With `foreground` a cell waits for it, and an interrupt means this run. `attach` finds the runs that it hands work
    on to, whose questions are shown with its own.

    Raises:
        RunKilled: the cell was interrupted. The run is being stopped; its card is finished in the background.
    """
    watched = Watched(handle, display, attach)
    watched.view.awaited = foreground
    ending = asyncio.ensure_future(handle.wait())
    try:
        with interruptible() if foreground else contextlib.nullcontext():
            await watched.until(ending, foreground=foreground)
    except (asyncio.CancelledError, KeyboardInterrupt):
        handle.kill(person())
        with contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
            # Mostly it is over in a moment, and then the next cell's `runs` says so.
            await asyncio.wait({ending}, timeout=STOP_SECONDS)
        see_off(ending, watched.finish)
        raise RunKilled(handle.run_id, person()) from None
    error = ending.exception()
    watched.finish(error)
    if error is not None:
        raise error
    return ending.result()


class Watched:
    """A run's events on their way from their thread to its display.

    What the runs below it ask is shown with it: a cell that waits for them is where a person looks.
    """

    def __init__(self, told: Told, display: RunDisplay, attach: Attach | None = None) -> None:
        self.view = RunView()  # The run, as far as it was taken
        self._display = display
        self._arrived: deque[Event] = deque()
        self._looked = float("-inf")
        # Where news are waited for; told once for everything that arrives before it is taken.
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._called = False
        self._attach = attach
        self._children: dict[str, Callable[[], None]] = {}
        self._stop = told.subscribe(self._hear)

    async def until(self, ending: asyncio.Future[Any], *, foreground: bool) -> None:
        """Show what arrives until this is done: at once, but never twice within a tenth of a second.

        With `foreground` the loop wakes up often, for an interrupt to be heard.
        """
        news = asyncio.Event()
        self._waiter = asyncio.get_running_loop(), news
        try:
            while not ending.done():
                self.look()
                pause = asyncio.ensure_future(self._news(news, TICK_SECONDS if foreground else IDLE_SECONDS))
                either: set[asyncio.Future[Any]] = {ending, pause}
                try:
                    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pause.cancel()
        finally:
            self._waiter = None

    def look(self) -> None:
        """Take what has arrived and show it."""
        self._looked = time.monotonic()
        self.take()
        self._display.refresh(self.view)

    def finish(self, error: BaseException | None = None) -> None:
        """Take the rest, show the end, listen no longer. A run without last words of its own is shown as lost.

        Of a run that could not even begin its record there is nothing to show; its error says everything.
        """
        self.leave()
        self.take()
        if self.view.started is None:
            return
        if error is not None:
            self.view.give_up(error)
        self._display.finish(self.view)

    def take(self) -> None:
        """Take what has arrived, without showing it."""
        self._called = False
        while self._arrived:
            event = self._arrived.popleft()
            if isinstance(event, ChildStarted):
                self._listen(event.child)
                if event.run_id in self._children:
                    continue
            self.view.apply(event)

    def leave(self) -> None:
        """Listen no longer, and show nothing more."""
        self._stop()
        for stop in self._children.values():
            stop()
        self._attach = None

    def _listen(self, child: str) -> None:
        if self._attach is None or child in self._children:
            return
        # Where it cannot be followed, its questions wait at the desk all the same.
        with contextlib.suppress(KaguraError):
            self._children[child] = self._attach(child).subscribe(self._hear_child)

    def _hear_child(self, event: Event) -> None:
        if isinstance(event, ApprovalRequested | ApprovalDecided | ChildStarted):
            self._hear(event)

    async def _news(self, news: asyncio.Event, longest: float) -> None:
        """Return when there is something to show and it is time for it, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest):
                # What came since the last look is waited for like what comes now.
                if not self._arrived:
                    await news.wait()
        news.clear()
        await asyncio.sleep(self._looked + TICK_SECONDS - time.monotonic())

    def _hear(self, event: Event) -> None:
        # On the engine's thread. The loop is woken by the first of many events, and takes all of them.
        self._arrived.append(event)
        waiter = self._waiter
        if waiter is not None and not self._called:
            self._called = True
            loop, news = waiter
            # The loop of a cell that is over may be closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(news.set)


def see_off(ending: asyncio.Future[Any], finish: Callable[[BaseException | None], None]) -> None:
    """Let what was interrupted say its last words in the background, and have them shown.

    The cancellation has been answered: the task that runs the cell goes on to show the error.
    """
    if (current := asyncio.current_task()) is not None:
        current.uncancel()

    async def last_words() -> None:
        await asyncio.wait({ending}, timeout=LINGER_SECONDS)
        finish(ending.exception() if ending.done() and not ending.cancelled() else None)

    task = asyncio.ensure_future(last_words())
    _afterwards.add(task)
    task.add_done_callback(_afterwards.discard)


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


_POLL_SECONDS = 0.1
_BEGINS_WITHIN = 1.0

T = TypeVar("T")


def wait_in_thread(work: Coroutine[Any, Any, T], name: str) -> T:
    """Do this in a thread of its own, wait for it, and return what it returns; an interrupt cancels it.

    Raises:
        CancelledError: an interrupt ended it.
    """
    result: list[T] = []
    error: list[BaseException] = []
    # Not the thread's own end: a join that is interrupted takes the thread for ended.
    begun, over = threading.Event(), threading.Event()
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)

    def cancel() -> None:
        # It may have ended, and its loop with it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(task.cancel)

    def run() -> None:
        begun.set()
        asyncio.set_event_loop(loop)
        try:
            result.append(loop.run_until_complete(task))
        except BaseException as why:  # noqa: BLE001  # carried over to the caller's thread and raised there
            error.append(why)
        finally:
            try:
                # An interrupted run says its last words afterwards: let it, so that nothing is torn off with the loop.
                if left := asyncio.all_tasks(loop):
                    loop.run_until_complete(asyncio.wait(left, timeout=LINGER_SECONDS))
            finally:
                loop.close()
                over.set()

    context = contextvars.copy_context()
    try:
        threading.Thread(target=lambda: context.run(run), name=name, daemon=True).start()
    except KeyboardInterrupt:
        # Nearly always it runs by then, and would go on with nobody who waits for it.
        cancel()
        if not begun.wait(_BEGINS_WITHIN):
            raise asyncio.CancelledError from None
    while not over.is_set():
        try:
            over.wait(_POLL_SECONDS)
        except KeyboardInterrupt:
            cancel()
    if error:
        raise error[0]
    return result[0]
