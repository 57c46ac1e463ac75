"""`kagura-kernel help`, and `completion SHELL`: what a shell has to be told once, so that it completes our words.

A shell asks `kagura-kernel __complete SHELL LINE` for what may stand at the end of a line; `complete_line` answers.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from types import SimpleNamespace

from kagura_kernel.cli.output import terminal_width
from kagura_kernel.cockpit.lines.completion import Completion, Name, Names, complete_command
from kagura_kernel.cockpit.lines.help import help_for
from kagura_kernel.domain.grammar import ON_DISK, Kind, Surface

_BASH = """\
_kagura_kernel() {
  local IFS=$'\\n' line
  COMPREPLY=()
  while IFS= read -r line; do
    if [ "$line" = ':files' ]; then compopt -o default; else COMPREPLY+=("$line"); fi
  done < <(kagura-kernel __complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  case "${COMPREPLY[0]-}" in */|*=) compopt -o nospace ;; esac
}
complete -F _kagura_kernel kagura-kernel
"""

_ZSH = """\
#compdef kagura-kernel
_kagura_kernel() {
  local line
  local -a texts summaries
  local asked="${(j: :)words[1,CURRENT-1]} $PREFIX"
  compset -P '--*='
  for line in "${(@f)$(kagura-kernel __complete zsh "$asked" 2>/dev/null)}"; do
    if [[ $line == ':files' ]]; then _files; return; fi
    [[ -n $line ]] || continue
    texts+=("${line%%$'\\t'*}")
    summaries+=("${line%%$'\\t'*}  ${line#*$'\\t'}")
  done
  compadd -l -d summaries -a texts
}
if [ "$funcstack[1]" = "_kagura_kernel" ]; then _kagura_kernel "$@"; else compdef _kagura_kernel kagura-kernel; fi
"""

_FISH = """\
function __kagura_kernel
  set -l word (commandline -ct)
  set -l before (string match -r '^--[^=]*=' -- $word)
  for line in (kagura-kernel __complete fish (commandline -cp) 2>/dev/null)
    if test "$line" = ':files'
      set line (__fish_complete_path (string replace -- "$before" '' $word))
    end
    string join \\n -- "$before"$line
  end
end
complete -c kagura-kernel -f -a '(__kagura_kernel)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(arguments: SimpleNamespace) -> int:
    """Print it."""
    print(SCRIPTS[arguments.shell], end="")
    return 0


FILES = ":files"
"""Stands for the files that the shell itself finds."""

PATIENCE = 3.0
"""Seconds a look-up in the journal may take: a program that has just started opens it first."""

_SHELL_BREAKS = ":="
"""Characters at which bash takes a word apart, though it shows it as one."""


def complete_line(words: Sequence[str]) -> int:
    """Print a line for each thing that may stand there: `TEXT`, or `TEXT<tab>SUMMARY` for shells that show one."""
    shell, line = (*words, "", "")[:2]
    with contextlib.suppress(Exception):
        for told in lines_for(shell, line, _Names()):
            print(told)
    return 0


def lines_for(shell: str, line: str, names: Names) -> list[str]:
    """What to print for this shell; its own files are asked for by name alone.

    The line goes up to the cursor, the program's name included.
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
        if kind in ON_DISK:
            self.files = True
            return ()
        return self._names.names(kind, prefix, given)


class _Names:
    """Names of the journal and the settings; imported when one is asked for."""

    def names(self, kind: Kind, prefix: str, given: Sequence[str]) -> Sequence[Name]:
        """Names of a kind; none where they cannot be had."""
        from kagura_kernel.jupyter.completion.names import ShellNames

        return ShellNames(None, blink=PATIENCE).names(kind, prefix, given)


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
