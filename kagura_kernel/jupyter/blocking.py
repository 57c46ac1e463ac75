"""The way round for shells that call a cell magic without awaiting it.

`%%kagura` is rewritten into an awaited call before IPython looks at it. Code that calls the magic by name
(`run_cell_magic`) gets here instead: the cell then runs in a thread with a loop of its own, and the caller waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

from kagura_kernel.jupyter.cell import run_cell
from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.surface import Surface, surface_of

_POLL_SECONDS = 0.1


def run_blocking(shell: Any, magic: str, line: str, body: str) -> Any:
    """The same as `run_cell`, waited for.

    A kernel that is blocked hears no buttons, so nobody can be asked: what needs an approval is denied by policy.
    """
    place = surface_of(shell)
    surface = Surface.HEADLESS if place is Surface.NOTEBOOK else place
    result: list[Any] = []
    error: list[BaseException] = []
    loop = asyncio.new_event_loop()
    task = loop.create_task(run_cell(shell, magic, line, body, surface=surface))

    def work() -> None:
        asyncio.set_event_loop(loop)
        try:
            result.append(loop.run_until_complete(task))
        except BaseException as why:  # noqa: BLE001  # carried over to the caller's thread and raised there
            error.append(why)
        finally:
            loop.close()

    context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: context.run(work), name="kagura cell", daemon=True)
    thread.start()
    while thread.is_alive():
        try:
            thread.join(_POLL_SECONDS)
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(task.cancel)
    with calm():
        if error:
            raise error[0]
    return result[0]
