"""What may stand at the end of a line of a shell, for the shell that asks. Never raises, and never prints an error."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence

from kagura_kernel.cockpit.lines.completing import Completion, complete_command
from kagura_kernel.cockpit.lines.lookup import Name, Names
from kagura_kernel.domain.grammar import Kind, Surface

FILES = ":files"
"""Stands for the files that the shell itself finds."""

PATIENCE = 3.0
"""Seconds a look-up in the journal may take: a program that has just started opens it first."""

_PATHS = frozenset({Kind.FILE, Kind.DIRECTORY, Kind.NOTEBOOK, Kind.SOURCE})
_SHELL_BREAKS = ":="
"""Characters at which bash takes a word apart, though it shows it as one."""


def run(words: Sequence[str]) -> int:
    """Print a line for each thing that may stand there: `TEXT`, or `TEXT<tab>SUMMARY` for shells that show one."""
    shell, line = (*words, "", "")[:2]
    with contextlib.suppress(Exception):
        for told in lines_for(shell, line, _Names()):
            print(told)
    return 0


def lines_for(shell: str, line: str, names: Names) -> list[str]:
    """What to print for this shell; its own files are asked for by name alone.

    Args:
        shell: `bash`, `zsh` or `fish`.
        line: The whole line up to the cursor, the program's name included.
        names: Looked up for values.
    """
    rest = line.lstrip()
    _, blank, command = rest.partition(" ")
    if not blank:
        return []
    asked = _Asked(names)
    found = complete_command(command, Surface.TERMINAL, asked)
    if asked.files:
        return [FILES]
    head = command[found.start :]
    skipped = max((head.rfind(char) + 1 for char in _SHELL_BREAKS), default=0) if shell == "bash" else 0
    return [_told(item, shell, skipped) for item in found.items]


def _told(item: Completion, shell: str, skipped: int) -> str:
    if shell == "bash":
        return item.text[skipped:]
    # These shells quote for themselves.
    text = shlex.split(item.text)[0] if item.text[:1] in "\"'" else item.text
    return f"{text}\t{item.summary}" if item.summary else text


class _Asked:
    """Passes a look-up on, and notes that files were asked for."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.files = False

    def names(self, kind: Kind, prefix: str, given: Sequence[str]) -> Sequence[Name]:
        """Names of a kind."""
        if kind in _PATHS:
            self.files = True
            return ()
        return self._names.names(kind, prefix, given)


class _Names:
    """Names of the journal and the settings; imported when one is asked for."""

    def names(self, kind: Kind, prefix: str, given: Sequence[str]) -> Sequence[Name]:
        """Names of a kind; none where they cannot be had."""
        from kagura_kernel.jupyter.completion.names import ShellNames

        return ShellNames(None, blink=PATIENCE).names(kind, prefix, given)
