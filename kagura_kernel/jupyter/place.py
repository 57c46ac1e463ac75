"""Where a cell stands: its notebook, kernel and id, as the front end and the server told the kernel."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any

from kagura_kernel.domain.variables import CellPlace


def place_of(shell: Any) -> CellPlace:
    """The cell that is running now; empty fields where nobody said anything, as in a terminal."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return CellPlace()
    parent = kernel.get_parent("shell") or {}
    metadata = parent.get("metadata") or {}
    cell = metadata.get("cellId") or metadata.get("cell_id") or ""
    # VS Code tells it by a variable of its own.
    notebook = os.environ.get("JPY_SESSION_NAME") or getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__", "")
    return CellPlace(
        notebook=str(notebook),
        kernel_id=_kernel_id(kernel),
        cell_id=str(cell),
    )


def _kernel_id(kernel: Any) -> str:
    """From the name of the connection file, which a server builds as `kernel-ID.json`."""
    app = getattr(kernel, "parent", None)
    name = PurePath(str(getattr(app, "connection_file", "") or "")).name
    if name.startswith("kernel-") and name.endswith(".json"):
        return name.removeprefix("kernel-").removesuffix(".json")
    return ""
