"""A Jupyter cell becomes an agent run that is safe by construction."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kagura_kernel.domain.imports import guard_imports

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

    from kagura_kernel.plugins.scan import Scan

__version__ = "0.1.0"

__all__ = ["__version__", "load_ipython_extension", "redact", "scan_plugin", "unload_ipython_extension"]

guard_imports(os.path.realpath, os.getcwd)


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """`%load_ext kagura_kernel`: register the magics; everything heavier waits for the first cell that needs it."""
    from kagura_kernel.jupyter.ahead import compile_ahead
    from kagura_kernel.jupyter.magics import register

    register(ipython)
    compile_ahead(os.environ)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """`%unload_ext kagura_kernel`: stop what runs, close what is open, and take the magics away."""
    from kagura_kernel.jupyter.magics import unregister

    unregister(ipython)


def redact(text: str) -> str:
    """The text with `[REDACTED:<kind>]` for every secret that is found in it; redacting twice changes nothing more.

    The first call may take seconds on a machine that has never compiled the rules; later processes find them compiled.

    Raises:
        RedactionUnavailable: secrets cannot be looked for.
    """
    from kagura_kernel.assembly.kits import redactor_of
    from kagura_kernel.journal.place import data_home

    return redactor_of(data_home(os.environ)).redact(text).text


def scan_plugin(path: str | Path) -> Scan:
    """What the static scan finds in a plugin's directory, or in one Python file; nothing of it is run or enabled.

    Raises:
        UsageError: there is no such file or directory, or it cannot be read.
    """
    from kagura_kernel.plugins.scan.scanning import scan_path

    return scan_path(path)
