"""How the cell magics are used: in a few lines below an error, and with a line for each option on `--help`."""

from __future__ import annotations

from kagura_kernel.cockpit.lines.helping import cell_help, usage_lines
from kagura_kernel.cockpit.lines.parsing import HELP_FLAGS, cell_magic


def wants_help(line: str) -> bool:
    """Whether a cell's first line asks how the magic is used."""
    return not (HELP_FLAGS | {"?"}).isdisjoint(line.split())


def short_usage(magic: str) -> str:
    """The usage of `kagura` or `sandbox` in a few lines."""
    return usage_lines(cell_magic(magic))


def help_text(magic: str) -> str:
    """The usage of `kagura` or `sandbox` with a line for each option, and examples."""
    return cell_help(cell_magic(magic))
