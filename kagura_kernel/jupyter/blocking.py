"""The way round for whoever runs a cell magic without awaiting it.

`%%kagura` is rewritten into an awaited call before IPython looks at it. Code that calls the magic by name
(`run_cell_magic`), and magics that run the cell below them (`%%time`, `%%capture`), get here instead: the cell then
runs in a thread with a loop of its own, and the caller waits.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.cell import run_cell
from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.launching import parse_cell, wants_help
from kagura_kernel.jupyter.own_loop import wait_in_thread
from kagura_kernel.jupyter.surface import Surface, loop_runs, surface_of


def run_blocking(shell: Any, magic: str, line: str, body: str) -> Any:
    """The same as `run_cell`, waited for.

    A kernel that is blocked hears no buttons, so nobody can be asked: what needs an approval is denied by policy.
    """
    place = surface_of(shell)
    with calm():
        if _in_background(magic, line, body):
            run = _begun(run_cell(shell, magic, line, body, surface=place, at_once=True))
            run.wait_begun()
            return run
    surface = Surface.INSIDE if place in {Surface.NOTEBOOK, Surface.CONSOLE} else place
    with calm():
        return wait_in_thread(run_cell(shell, magic, line, body, surface=surface), "kagura cell")


def _in_background(magic: str, line: str, body: str) -> bool:
    """Whether the cell asks for a run that the caller does not wait for.

    Raises:
        UsageError: it does, and there is no loop in which its card could live.
    """
    if wants_help(line) or "--bg" not in line.split():
        return False
    if not loop_runs():
        raise UsageError(f"%%{magic}: `--bg` needs a cell of its own, with nothing above it.")
    return parse_cell(magic, line, body).background


def _begun(cell: Coroutine[Any, Any, Any]) -> Any:
    """What a cell that waits for nothing returns."""
    try:
        cell.send(None)
    except StopIteration as over:
        return over.value
    cell.close()
    raise RuntimeError("a run in the background was waited for")
