"""A run that goes on while the cell is done: `%%kagura --bg`.

When it needs its person, a bell rings in a terminal, and one quiet line stands below the next cell. Where nobody is
there nothing happens: policy answers, and a notebook has to come out the same every time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Generator
from html import escape
from typing import Any

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.feeds import Feed
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.domain.errors import JournalError, KaguraError
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, Event, RunFinished
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.jupyter.errors import calm, check, shown_as
from kagura_kernel.jupyter.follow import Watched, follow, interruptible, wait_in_thread
from kagura_kernel.jupyter.launch import successor
from kagura_kernel.jupyter.live_run import HeadlessDisplay, NotebookDisplay, RunDisplay
from kagura_kernel.jupyter.surface import Surface, loop_runs, parent_of, person, place_of, surface_of
from kagura_kernel.jupyter.terminal import TerminalDisplay, ring
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.html import NO_FORMULAS
from kagura_kernel.views.status import STATUS_WORDS

_OVER = "post_run_cell"

_waiting: dict[str, LateCard] = {}


def shown_already(run_id: str) -> None:
    """A cell shows this run by itself: no later one has to."""
    card = _waiting.get(run_id)
    if card is not None:
        card.drop()


class LateCard:
    """Waits for the run's end and for a cell.

    Whatever runs notebooks without a person takes no output for a cell that is over. So the card goes into the cell
    that awaits the run, or else into the first one that ends after it.
    """

    def __init__(self, handle: RunHandle, display: RunDisplay, shell: Any) -> None:
        self._handle = handle
        self._watched = Watched(handle, display)
        self._shell = shell
        self._shown = False
        _waiting[handle.run_id] = self
        shell.events.register(_OVER, self._cell_over)

    def show(self, *, awaited: bool = False) -> None:
        """Show the card now, in the cell that is running; nothing happens before the run's end, or the second time.

        With `awaited` that cell awaits the run, and tells itself by whom it was stopped.
        """
        if not self._shown and self._handle.done:
            self._watched.view.awaited = awaited
            self._forget()
            # Its card says so, and whoever awaits the run is told.
            self._watched.finish(self._handle.error)

    def drop(self) -> None:
        """Show it nowhere."""
        if not self._shown:
            self._forget()
            self._watched.leave()

    def _forget(self) -> None:
        self._shown = True
        _waiting.pop(self._handle.run_id, None)
        self._shell.events.unregister(_OVER, self._cell_over)

    def _cell_over(self, _result: object) -> None:
        self._watched.take()
        # `%unload_ext` ends the run and closes its journal: the card is shown, and no more can be read for it.
        with contextlib.suppress(JournalError):
            self.show()


class Bell:
    """Tells of the questions of one run in the background, each once, until the run is over."""

    def __init__(self, handle: RunHandle, shell: Any, surface: Surface) -> None:
        self._run_id = handle.run_id
        self._shell = shell
        self._surface = surface
        self._lock = threading.Lock()
        self._open: dict[str, ApprovalRequested] = {}
        self._told: set[str] = set()
        self._ended = ""
        # A notebook's first cell is the one with the run's card, where the question is seen.
        self._in_sight = surface is Surface.NOTEBOOK
        self._stop = handle.subscribe(self._hear)
        if surface in {Surface.NOTEBOOK, Surface.TERMINAL}:
            shell.events.register(_OVER, self._cell_over)

    @property
    def status(self) -> str:
        """How the run stands."""
        with self._lock:
            return self._ended or ("waiting" if self._open else "running")

    @property
    def waits_for(self) -> str:
        """The title of the oldest question that is open; empty without one."""
        with self._lock:
            return next((one_line(asked.title) for asked in self._open.values()), "")

    def _hear(self, event: Event) -> None:
        # On the engine's thread.
        match event:
            case ApprovalRequested():
                with self._lock:
                    self._open[event.approval_id] = event
                if self._surface is Surface.TERMINAL:
                    ring()
            case ApprovalDecided():
                with self._lock:
                    self._open.pop(event.approval_id, None)
            case RunFinished():
                with self._lock:
                    self._open.clear()
                    self._ended = event.status
            case _:
                pass

    def _cell_over(self, _result: object) -> None:
        if self._in_sight:
            self._in_sight = False
            return
        with self._lock:
            over = bool(self._ended)
            fresh = [asked for key, asked in self._open.items() if key not in self._told]
        if over:
            self._shell.events.unregister(_OVER, self._cell_over)
            self._stop()
        elif fresh and surface_of(self._shell) in {Surface.NOTEBOOK, Surface.TERMINAL}:
            self._told.update(asked.approval_id for asked in fresh)
            more = f", and {len(fresh) - 1} more" if len(fresh) > 1 else ""
            what = f"{one_line(fresh[0].title, 80)}{more}"
            print(f"{self._run_id} waits for you: {what}. Answer: %kagura attach {self._run_id}")  # noqa: T201  # as a magic does


class BackgroundRun:
    """A run under way. `await` it for its outcome; interrupting that wait does not stop the run.

    Without a person its card is shown by a later cell, once the run is over; elsewhere it lives where the run began.
    `arrive` is called with the outcome when it is first awaited.
    """

    def __init__(
        self,
        cockpit: Cockpit,
        handle: RunHandle,
        display: RunDisplay,
        shell: Any,
        surface: Surface,
        arrive: Callable[[RunOutcome], None] | None,
    ) -> None:
        self.run_id = handle.run_id  # `run-…`, for `%kagura attach` and `%kagura kill`
        self._handle = handle
        self._arrive = arrive
        self._cockpit = cockpit
        self._shell = shell
        self._bell = Bell(handle, shell, surface)
        self._late: LateCard | None = None
        if surface is Surface.HEADLESS:
            self._late = LateCard(handle, display, shell)
        else:
            self._shown = asyncio.ensure_future(self._show(display))

    def wait_begun(self) -> None:
        """Block until `last` means this run for everyone; it takes a moment when it is the first of its process."""
        self._handle.wait_begun()

    async def begun(self) -> None:
        """The same as `wait_begun` for callers with a loop."""
        await self._handle.begun()

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._handle.done

    @property
    def status(self) -> str:
        """How it stands: `running`, `waiting` for an answer, or how it ended, as in `RunOutcome.status`."""
        if self.done and self._bell.status in {"running", "waiting"}:
            # It could not even say its last words.
            return "lost"
        return self._bell.status

    def kill(self) -> None:
        """Stop it; returns at once."""
        self._handle.kill(person())

    def __await__(self) -> Generator[Any, None, RunOutcome]:
        """Its outcome; raises like a cell that is not in the background."""
        return self._outcome().__await__()

    def __repr__(self) -> str:
        if self.done:
            return f"<BackgroundRun {self.run_id}, {self.status}>"
        # A notebook keeps this line, so that it does not say of a run that it goes on.
        waits = f", waiting: {self._bell.waits_for}" if self._bell.waits_for else ""
        how = f"await it, see it with `%kagura attach {self.run_id}`, or stop it with .kill()"
        return f"<BackgroundRun {self.run_id}{waits}; {how}>"

    def _repr_html_(self) -> str:
        """One quiet line, since the card says the rest."""
        waits, facts = self._bell.waits_for, [escape(self.run_id)]
        if self.done or waits:
            state = f"<b>{escape(STATUS_WORDS.get(self.status, self.status))}</b>"
            facts.insert(0, f"{state}: {escape(waits)}" if waits else state)
        if not self.done:
            facts.append(f"{_code(f'%kagura attach {self.run_id}')} shows it in any notebook")
        facts.append(_code(".status .done") if self.done else _code("await .status .done .kill()"))
        return (
            f'<span class="{NO_FORMULAS}" style="color: var(--jp-content-font-color2, #666); font-size: 12px">'
            f"BackgroundRun · {' · '.join(facts)}</span>"
        )

    async def _outcome(self) -> RunOutcome:
        with calm():
            ending = asyncio.ensure_future(self._handle.wait())
            try:
                with interruptible():
                    while not ending.done():
                        # Wakes the loop often enough for an interrupt to be heard.
                        await asyncio.wait({ending}, timeout=0.1)
            except asyncio.CancelledError as error:
                # It stays what it is, for those who cancel the wait on purpose; only its look becomes calm.
                how = f"Stop it with `%kagura kill {self.run_id}`, or await it again."
                shown_as(error, f"The wait was interrupted; {self.run_id} goes on. {how}")
                raise
            if self._late is not None:
                self._late.show(awaited=True)
            outcome = check(ending.result())
            # Once: a second wait must not undo what was done to them meanwhile.
            arrive, self._arrive = self._arrive, None
            if arrive is not None:
                arrive(outcome)
            return outcome

    async def _show(self, display: RunDisplay) -> None:
        try:
            await follow(self._handle, display, self._cockpit.attach, foreground=False)
        except KaguraError:
            # The card says so, and whoever awaits the run is told.
            return
        await _go_on(self._cockpit, self._shell, self.run_id)


def _code(text: str) -> str:
    return f'<code style="background: none; padding: 0">{escape(text)}</code>'


# One display for each cell and run: a cell that is run again shows the run once.
_shown: dict[tuple[str, str], asyncio.Task[None]] = {}


def attach(cockpit: Cockpit, shell: Any, run_id: str) -> None:
    """Show a run here.

    Raises:
        RunUnknown: there is no such run.
        JournalError: it cannot be read.
    """
    feed = cockpit.attach(run_id)
    surface = surface_of(shell)
    if surface is Surface.TERMINAL:
        _print(cockpit, feed)
    elif surface is Surface.NOTEBOOK and loop_runs():
        # The cell that runs now, or its request where the front end names no cells.
        cell = place_of(shell).cell_id or (parent_of(shell).get("header") or {}).get("msg_id")
        _show(cockpit, shell, feed, str(cell or ""))
    else:
        _show_once(cockpit, feed)


def _show(cockpit: Cockpit, shell: Any, feed: Feed, cell: str) -> None:
    """Begin a live card, which outlives the cell."""
    key = (cell, feed.run_id)
    if (before := _shown.pop(key, None)) is not None:
        before.cancel()
    # The task carries the cell's context, so that what it shows lands in this cell.
    task = asyncio.ensure_future(_live(cockpit, feed, NotebookDisplay(cockpit, feed.run_id), shell=shell))
    _shown[key] = task

    def forget(done: asyncio.Task[None]) -> None:
        if _shown.get(key) is done:
            del _shown[key]

    task.add_done_callback(forget)


async def _live(
    cockpit: Cockpit, feed: Feed, display: RunDisplay, leave: Callable[[], None] = lambda: None, shell: Any = None
) -> None:
    """Show a run until its end; when that is called off, `leave` takes away what waits on the display."""
    watched = Watched(feed, display, cockpit.attach)
    ending = asyncio.ensure_future(feed.ended())
    try:
        await watched.until(ending, foreground=False)
    except asyncio.CancelledError:
        watched.leave()
        leave()
        ending.cancel()
        raise
    watched.finish(ending.result())
    if shell is not None:
        await _go_on(cockpit, shell, feed.run_id)


async def _go_on(cockpit: Cockpit, shell: Any, run_id: str) -> None:
    """Show below a run that is over what goes on in its place, where a person has wanted that."""
    try:
        after = await asyncio.to_thread(successor, cockpit, run_id, Surface.NOTEBOOK, shell)
    except KaguraError as error:
        print(error.message)  # noqa: T201  # nobody waits for it who could be raised at
        return
    if after is not None:
        await _live(cockpit, after, NotebookDisplay(cockpit, after.run_id), shell=shell)


def _print(cockpit: Cockpit, feed: Feed) -> None:
    """Print the run until its end, or until Ctrl-C."""
    display = TerminalDisplay(cockpit, feed.run_id)
    if not _wait(_live(cockpit, feed, display, display.leave)):
        how = f"`%kagura attach {feed.run_id}` shows it again, `%kagura kill {feed.run_id}` stops it."
        print(f"{feed.run_id} goes on. {how}")  # noqa: T201  # a magic answers by printing


def _show_once(cockpit: Cockpit, feed: Feed) -> None:
    """Wait for the run's end and show it; interrupting the wait shows the run as it is then."""
    watched = Watched(feed, HeadlessDisplay(cockpit, feed.run_id))
    error: list[Exception | None] = []

    async def wait() -> None:
        error.append(await feed.ended())

    _wait(wait())
    shown_already(feed.run_id)
    watched.finish(error[0] if error else None)


def _wait(work: Coroutine[Any, Any, None]) -> bool:
    """Wait for this; False when an interrupt ended it."""
    try:
        wait_in_thread(work, "kagura attach")
    except asyncio.CancelledError:
        return False
    return True
