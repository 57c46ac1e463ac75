"""A Jupyter cell becomes an agent run that is safe by construction."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kagura_kernel.domain.imports import guard_imports

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"

__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension"]

guard_imports(os.path.realpath, os.getcwd)


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """`%load_ext kagura_kernel`: register the magics; everything heavier waits for the first cell that needs it."""
    from kagura_kernel.jupyter.magics import register

    register(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """`%unload_ext kagura_kernel`: stop what runs, close what is open, and take the magics away."""
    from kagura_kernel.jupyter.magics import unregister

    unregister(ipython)
