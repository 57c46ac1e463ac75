"""The way round for whoever runs a cell magic without awaiting it.

`%%kagura` is rewritten into an awaited call before IPython looks at it. Code that calls the magic by name
(`run_cell_magic`), and magics that run the cell below them (`%%time`, `%%capture`), get here instead: the cell then
runs in a thread with a loop of its own, and the caller waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.cell import run_cell
from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.launching import parse_cell
from kagura_kernel.jupyter.surface import Surface, surface_of
from kagura_kernel.jupyter.usage import wants_help

_POLL_SECONDS = 0.1


def run_blocking(shell: Any, magic: str, line: str, body: str) -> Any:
    """The same as `run_cell`, waited for.

    A kernel that is blocked hears no buttons, so nobody can be asked: what needs an approval is denied by policy.
    """
    place = surface_of(shell)
    with calm():
        if _in_background(magic, line, body):
            return _begun(run_cell(shell, magic, line, body, surface=place))
    surface = Surface.INSIDE if place in {Surface.NOTEBOOK, Surface.CONSOLE} else place
    result: list[Any] = []
    error: list[BaseException] = []
    # Not the thread's own end: a join that is interrupted takes the thread for ended.
    over = threading.Event()
    loop = asyncio.new_event_loop()
    task = loop.create_task(run_cell(shell, magic, line, body, surface=surface))

    def work() -> None:
        asyncio.set_event_loop(loop)
        try:
            result.append(loop.run_until_complete(task))
        except BaseException as why:  # noqa: BLE001  # carried over to the caller's thread and raised there
            error.append(why)
        finally:
            try:
                _let_end(loop)
            finally:
                loop.close()
                over.set()

    context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: context.run(work), name="kagura cell", daemon=True)
    thread.start()
    while not over.is_set():
        try:
            over.wait(_POLL_SECONDS)
        except KeyboardInterrupt:
            # The cell may have ended, and its loop with it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
    with calm():
        if error:
            raise error[0]
    return result[0]


def _in_background(magic: str, line: str, body: str) -> bool:
    """Whether the cell asks for a run that the caller does not wait for.

    Raises:
        UsageError: it does, and there is no loop in which its card could live.
    """
    if wants_help(line) or "--bg" not in line.split():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError as why:
        raise UsageError(f"%%{magic}: `--bg` needs a cell of its own, with nothing above it.") from why
    return parse_cell(magic, line, body).background


def _begun(cell: Coroutine[Any, Any, Any]) -> Any:
    """What a cell that waits for nothing returns."""
    try:
        cell.send(None)
    except StopIteration as over:
        return over.value
    cell.close()
    raise RuntimeError("a run in the background was waited for")


def _let_end(loop: asyncio.AbstractEventLoop) -> None:
    """An interrupted run says its last words after the cell: let it, so that nothing is torn off with the loop."""
    from kagura_kernel.jupyter.follow import LINGER_SECONDS

    if left := asyncio.all_tasks(loop):
        loop.run_until_complete(asyncio.wait(left, timeout=LINGER_SECONDS))
