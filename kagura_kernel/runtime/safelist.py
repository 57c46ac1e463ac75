"""Which commands only look: they start no other program, write nothing, and end by themselves.

Pure: looks at nothing but the text. A command is safe when its line is free of meta-characters, its program is on the
list (a bare name, or one in a directory of the system), and its arguments have been understood and found harmless.
What is not understood is not safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kagura_kernel.runtime.metachars import Line, name_of, split_line
from kagura_kernel.runtime.safe_arguments import (
    awk_problem,
    find_problem,
    grep_problem,
    ls_problem,
    rg_problem,
    sed_problem,
    tail_problem,
    wc_problem,
)

SAFE_COMMANDS: tuple[str, ...] = (
    "pwd",
    "ls",
    "find",
    "cat",
    "head",
    "tail",
    "wc",
    "echo",
    "grep",
    "sed",
    "awk",
    "rg",
)
"""Programs that only look, when their arguments are harmless."""

SYSTEM_DIRECTORIES: tuple[str, ...] = ("/bin", "/usr/bin")
"""A program named with its path counts only if it lies here."""

_ARGUMENT_CHECKS: dict[str, Callable[[Sequence[str]], str]] = {
    "find": find_problem,
    "sed": sed_problem,
    "awk": awk_problem,
    "grep": grep_problem,
    "ls": ls_problem,
    "rg": rg_problem,
    "tail": tail_problem,
    "wc": wc_problem,
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the safe list says of one command.

    Attributes:
        safe: Whether it only looks.
        base: Name of its program; empty when there is none that counts.
        words: The line, split; only meaningful when `meta` is empty.
        meta: Characters that need a shell, each once.
        reasons: Why it is not safe; empty when it is.
    """

    safe: bool
    base: str
    words: tuple[str, ...]
    meta: tuple[str, ...]
    reasons: tuple[str, ...]


def judge(command: str, safe_commands: Collection[str] = SAFE_COMMANDS) -> Judgement:
    """What the safe list says of a command, with every reason."""
    line = split_line(command)
    base = base_command(line)
    reasons = []
    if line.meta:
        reasons.append("command contains shell metacharacters: " + " ".join(name_of(char) for char in line.meta))
    program = re.split(r"[;&|<>(){}$`]", line.words[0])[0] if line.words else ""
    if not program:
        reasons.append("command names no program")
    elif base not in safe_commands and not (line.meta and program in safe_commands):
        reasons.append(f"command {program!r} is not in the safe list")
    elif not line.meta and (problem := _argument_problem(base, line.words[1:])):
        reasons.append(problem)
    return Judgement(not reasons, base, line.words, line.meta, tuple(reasons))


def is_safe(command: str, safe_commands: Collection[str] = SAFE_COMMANDS) -> bool:
    """Whether a command only looks."""
    return judge(command, safe_commands).safe


def base_command(line: Line) -> str:
    """Name of the program a line starts; empty when it is given by a path outside the system's directories."""
    if not line.words:
        return ""
    directory, slash, name = line.words[0].rpartition("/")
    return name if not slash or directory in SYSTEM_DIRECTORIES else ""


def is_preapproved(judgement: Judgement, command: str, preapproved: Collection[str]) -> bool:
    """Whether settings let a command run on the host without asking.

    An entry is the name of a program, or one whole line. Either way the command has to be safe and to stay below
    the working directory: `cat` in the settings is no leave to read anybody's keys. Links are not seen here; see
    `operands`.
    """
    named = judgement.base in preapproved or command.strip() in preapproved
    return named and judgement.safe and not any(_leaves_directory(word) for word in judgement.words[1:])


def _argument_problem(base: str, arguments: Sequence[str]) -> str:
    check = _ARGUMENT_CHECKS.get(base)
    return check(arguments) if check else ""


def _leaves_directory(word: str) -> bool:
    if re.search(r"(^|[/=:])\.\.($|/)", word):
        return True
    return word.startswith("/") or "=/" in word or (word.startswith("-") and "/" in word)
