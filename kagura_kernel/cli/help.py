"""`kagura-kernel help`, and `--help` everywhere: all commands, or more about one."""

from __future__ import annotations

from types import SimpleNamespace

from kagura_kernel.cli.printing import terminal_width
from kagura_kernel.cockpit.lines.helping import help_for
from kagura_kernel.domain.grammar import Surface

_TOP = """\
usage: kagura-kernel [--help] [--version] COMMAND …

A Jupyter cell becomes an agent run that is safe by construction.

"""


def help(arguments: SimpleNamespace) -> int:  # noqa: A001 - a command is the function of its name
    """Print it.

    Raises:
        UnknownName: there is no such command.
    """
    text = help_for(arguments.word, Surface.TERMINAL, width=terminal_width())
    print(text if arguments.word else _TOP + text)
    return 0
