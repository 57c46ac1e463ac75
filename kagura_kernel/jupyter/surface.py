"""Where a cell is shown and where it stands, and whether anybody is there who could be asked."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any

from kagura_kernel.domain.variables import CellPlace, kernel_of


class Surface(Enum):
    """What is on the other side."""

    NOTEBOOK = "notebook"
    TERMINAL = "terminal"
    CONSOLE = "console"
    """A terminal in front of a kernel, such as `jupyter console`: text, and answers by lines."""
    HEADLESS = "headless"
    INSIDE = "inside"
    """A notebook whose kernel is blocked by the code around the cell: nothing can be asked until that is over."""


def parent_of(shell: Any) -> Mapping[str, Any]:
    """The request or the click that the kernel carries out now; empty without a kernel."""
    kernel = getattr(shell, "kernel", None)
    return (kernel.get_parent("shell") or {}) if kernel is not None else {}


def surface_of(shell: Any) -> Surface:
    """Where the cell that is running now is shown.

    A kernel is told with each request whether input is allowed. Whatever runs notebooks without a person (nbclient,
    nbconvert, nbval) says that it is not.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return Surface.TERMINAL if sys.stdin is not None and sys.stdin.isatty() else Surface.HEADLESS
    parent = parent_of(shell)
    if not (parent.get("content") or {}).get("allow_stdin", False):
        return Surface.HEADLESS
    is_console = getattr(kernel, "is_console", None)
    return Surface.CONSOLE if is_console is not None and is_console(parent) else Surface.NOTEBOOK


def person() -> str:
    """Login name of whoever sits here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # No name for this user id, as in many containers.
        return "user"


def loop_runs() -> bool:
    """Whether a loop runs in this thread, which could keep something live."""
    # A terminal's command, which asks for the person alone, starts without it.
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def place_of(shell: Any) -> CellPlace:
    """The cell that is running now; empty fields where nobody said anything, as in a terminal."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return CellPlace()
    metadata = parent_of(shell).get("metadata") or {}
    cell = metadata.get("cellId") or metadata.get("cell_id") or ""
    # VS Code tells it by a variable of its own.
    notebook = os.environ.get("JPY_SESSION_NAME") or getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__", "")
    # What comes in is kept by its count; when the shell's own count goes up differs between versions of IPython.
    inputs = getattr(getattr(shell, "history_manager", None), "input_hist_parsed", ())
    kernel_id = kernel_of(getattr(getattr(kernel, "parent", None), "connection_file", ""))
    notebook = _called_now(str(notebook), kernel_id)
    return CellPlace(notebook, kernel_id, str(cell), len(inputs) - 1 if len(inputs) > 1 else None)


def client_of(shell: Any) -> str:
    """The front end, by its session, whose request or click this kernel carries out; empty without a kernel."""
    return str((parent_of(shell).get("header") or {}).get("session", ""))


def _called_now(notebook: str, kernel_id: str) -> str:
    """What a notebook is called after it was renamed: its kernel is told its name once, when it starts."""
    # Before there is a cockpit nothing is known, and nothing is imported to find that out.
    process = sys.modules.get("kagura_kernel.assembly.process")
    cockpit = process.cockpit_here() if process is not None and notebook and kernel_id else None
    return notebook if cockpit is None else str(cockpit.called_now(notebook, kernel_id))
