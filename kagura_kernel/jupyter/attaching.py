"""`%kagura attach RUN`: the card of any run, in this cell: of this kernel or another one, going on or over.

In a notebook the cell is done at once and the card lives on in it until the run ends. In a terminal the run is printed
as it goes, until it ends or Ctrl-C; that ends the looking on and not the run. Where nobody is there (nbclient, nbval)
the cell waits for the run's end and shows it once, for what is written then cannot be changed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.background import shown_already
from kagura_kernel.jupyter.follow import Watched
from kagura_kernel.jupyter.live_run import HeadlessDisplay, NotebookDisplay
from kagura_kernel.jupyter.own_loop import wait_in_thread
from kagura_kernel.jupyter.surface import Surface, loop_runs, surface_of
from kagura_kernel.jupyter.terminal import TerminalDisplay

if TYPE_CHECKING:
    from kagura_kernel.cockpit.attaching import Feed
    from kagura_kernel.cockpit.cockpit import Cockpit

# One display for each cell and run: a cell that is run again shows the run once.
_shown: dict[tuple[str, str], asyncio.Task[None]] = {}


def attach(cockpit: Cockpit, shell: Any, run_id: str) -> None:
    """Show a run here.

    Args:
        cockpit: Knows the run.
        shell: IPython.
        run_id: Its whole id.

    Raises:
        RunUnknown: there is no such run.
        JournalError: it cannot be read.
    """
    feed = cockpit.attach(run_id)
    surface = surface_of(shell)
    if surface is Surface.TERMINAL:
        _print(cockpit, feed)
    elif surface is Surface.NOTEBOOK and loop_runs():
        _show(cockpit, feed, _cell_of(shell))
    else:
        _show_once(cockpit, feed)


def _show(cockpit: Cockpit, feed: Feed, cell: str) -> None:
    """Begin a live card, which outlives the cell."""
    key = (cell, feed.run_id)
    if (before := _shown.pop(key, None)) is not None:
        before.cancel()
    # The task carries the cell's context, so that what it shows lands in this cell.
    task = asyncio.ensure_future(_live(cockpit, feed, NotebookDisplay(cockpit, feed.run_id)))
    _shown[key] = task

    def forget(done: asyncio.Task[None]) -> None:
        if _shown.get(key) is done:
            del _shown[key]

    task.add_done_callback(forget)


async def _live(cockpit: Cockpit, feed: Feed, display: Any) -> None:
    watched = Watched(feed, display, cockpit.attach)
    ending = asyncio.ensure_future(feed.ended())
    try:
        await watched.until(ending, foreground=False)
    except asyncio.CancelledError:
        watched.leave()
        ending.cancel()
        raise
    watched.finish(ending.result())


def _print(cockpit: Cockpit, feed: Feed) -> None:
    """Print the run until its end, or until Ctrl-C."""
    display = TerminalDisplay(cockpit, feed.run_id)

    async def look_on() -> None:
        watched = Watched(feed, display, cockpit.attach)
        ending = asyncio.ensure_future(feed.ended())
        try:
            await watched.until(ending, foreground=False)
        except asyncio.CancelledError:
            watched.leave()
            display.leave()
            ending.cancel()
            raise
        watched.finish(ending.result())

    if not _wait(look_on()):
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


def _cell_of(shell: Any) -> str:
    """The id of the cell that runs now, or of its request where the front end names no cells."""
    parent = shell.kernel.get_parent("shell") or {}
    return str((parent.get("metadata") or {}).get("cellId") or (parent.get("header") or {}).get("msg_id") or "")
