"""Which of a run's calls failed in a way that is worth remembering, and what mended them. Pure.

What is said to have mended a line is what lay between its failure and its going well, as far as that may have changed
something. Whatever only reads, asks or plans is left out, and so is a line whose exit code may be that of another
program: somebody is to trust this, so that too little is better than something wrong.

Not worth it: programs that only look and found nothing, a misspelt path put right at once, code that is changed until
it runs, what somebody interrupted, and tests that fail until the code is right, which is what they are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kagura_kernel.patterns.command_words import family_of, shared_words, tells_of
from kagura_kernel.patterns.lessons import Failure

COMMANDS = frozenset({"bash", "python"})
"""Tools that run something."""
CHANGES = frozenset({"write_file", "edit_file"})
"""Tools that change a file of the workspace."""
LONGEST_LINE = 2_000
"""Characters of a command, and of the end of its output, that are looked at."""
MOST_STEPS = 3
"""How many steps of a fix are told."""

_MENDED, _OPEN, _BY_FILES, _FOREIGN, _AGAIN = 60, 50, 30, 20, 10
"""How telling a failure is: mended by doing it otherwise, not mended, by files alone, a toolset's, by trying again."""

_ALIKE = 0.5
_AHEAD = 100
"""How many calls later a failure may still be mended."""
_INTERRUPTED = frozenset({130, 131, 137, 143})
_ERROR = re.compile(r"\[(ERR_[A-Z_]+)\]")
_TIMEOUT = re.compile(r"\[ERR_\w*TIMEOUT\]")
_SLIP = re.compile(r"No such file or directory|can't open file|SyntaxError|IndentationError|NameError")
_SAYS_WHY = re.compile(r"error|denied|fatal|fail|cannot|can't|not |missing|refused|invalid|exception", re.IGNORECASE)
_AROUND = re.compile(r"^\[(?:stderr|exit code \d+|ended by signal \d+|the whole output .*)\]$")
_PYTHON_WRITES = re.compile(
    r"""\bopen\s*\([^\n]{0,200}?(?:,|mode\s*=)\s*['"](?:b?[wax][bt]?\+?b?|b?rb?\+b?)['"]"""
    r"""|\.open\s*\(\s*['"](?:[wax]|rb?\+)"""
    r"|\.write(?:_text|_bytes|lines)?\s*\(|\.(?:touch|mkdir|unlink|rmdir|chmod|symlink_to|rename|savefig|dump)\s*\("
    r"|\.to_(?:csv|excel|feather|hdf|html|json|latex|markdown|parquet|pickle|sql|stata|xml)\s*\("
    r"|\bshutil\.\w|\bsubprocess\.\w|\bos\.(?:system|popen|remove|replace|rename|makedirs|environ|putenv|kill)\b"
)
"""Code that may change something which lasts longer than its interpreter."""
_REPEATS = re.compile(r"^g?make(?:\[\d+\])?: \*\*\* \[.*\] Error \d+$")
"""What `make` adds to what a program of it has said."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a run.

    Attributes:
        tool: Its tool.
        line: The command or the code; of a change, the file.
        said: The end of what came back.
        failed: Whether it failed.
        exit_code: Of the command, if there was one.
        foreign: Whether it is a tool of a toolset, whose complaints are another program's.
    """

    tool: str
    line: str
    said: str = ""
    failed: bool = False
    exit_code: int | None = None
    foreign: bool = False


def failures_of(attempts: Sequence[Attempt]) -> list[Failure]:
    """What went wrong, the most telling first; the same failure once."""
    found: dict[str, tuple[int, Failure]] = {}
    for place, attempt in enumerate(attempts):
        judged = _judged(attempts, place, attempt)
        if judged is not None and judged[0] > found.get(judged[1].trigger, (0, None))[0]:
            found[judged[1].trigger] = judged
    return [failure for _, failure in sorted(found.values(), key=lambda one: -one[0])]


def mended_by(attempts: Sequence[Attempt], tool: str, line: str) -> str:
    """What a run did so that a command, which had failed in an earlier run, went well; empty where it did not."""
    for place, attempt in enumerate(attempts):
        if not attempt.failed and _mends(tool, line, attempt):
            before = attempts[:place]
            # That it simply went well this time mends nothing.
            return _fix(before, line, attempt) if _steps(before) or _other_words(line, attempt.line) else ""
    return ""


def telling_line(said: str) -> str:
    """The line of an output that says why: the last one that names an error, or else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _AROUND.match(line.strip())]
    own = [line for line in lines if not _REPEATS.match(line)] or lines
    return next((line for line in reversed(own) if _SAYS_WHY.search(line)), own[-1] if own else "")


def _judged(attempts: Sequence[Attempt], place: int, attempt: Attempt) -> tuple[int, Failure] | None:
    if attempt.foreign and attempt.failed:
        return _FOREIGN, _tool_failure(attempt)
    # Tools of ours that look or change say at once what is wrong with a call.
    if not attempt.failed or attempt.tool not in COMMANDS or _says_nothing(attempt):
        return None
    after = _mending(attempts, place, attempt)
    if after is None:
        tried_otherwise = attempt.tool == "python" and _goes_well_later(attempts, place, "python")
        return None if tried_otherwise else (_OPEN, _failure(attempt, ""))
    between = _since_last_time(attempt, attempts[place + 1 : after])
    weight = _weight(attempt, between, attempts[after])
    return (weight, _failure(attempt, _fix(between, attempt.line, attempts[after]))) if weight else None


def _since_last_time(attempt: Attempt, between: Sequence[Attempt]) -> Sequence[Attempt]:
    """What was done since it failed in this way for the last time: what came before did not help."""
    again = (n for n, one in enumerate(between) if one.failed and _same(attempt, one))
    last = max((n for n in again if between[n].exit_code == attempt.exit_code), default=-1)
    return between[last + 1 :]


def _weight(attempt: Attempt, between: Sequence[Attempt], mended: Attempt) -> int:
    """How telling it is what mended a command; 0 for not at all."""
    steps = _steps(between)
    if not steps and _SLIP.search(attempt.said):
        return 0
    by_commands = any(not step.failed and _acts(step) and not _by_file(step) for step in between)
    if by_commands:
        return _MENDED
    if _other_words(attempt.line, mended.line):
        # That code is changed until it runs is how code is written.
        return 0 if attempt.tool == "python" else _MENDED
    if not steps:
        return _AGAIN
    return 0 if family_of(attempt.line).tests else _BY_FILES


def _says_nothing(attempt: Attempt) -> bool:
    if attempt.exit_code in _INTERRUPTED:
        return True
    if attempt.exit_code is None:
        # Without a code it was refused or stopped; only what took too long is about the command itself.
        return not _TIMEOUT.search(attempt.said)
    # What only looks says no more where its output goes into a file.
    return attempt.tool == "bash" and (family_of(attempt.line).looks or _by_file(attempt))


def _mending(attempts: Sequence[Attempt], place: int, attempt: Attempt) -> int | None:
    """Where a later call did what this one could not; the very same line counts before one that is like it."""
    later = [n for n in range(place + 1, min(len(attempts), place + _AHEAD)) if not attempts[n].failed]
    same = next((n for n in later if _same(attempt, attempts[n])), None)
    return same if same is not None else next((n for n in later if _mends_attempt(attempt, attempts[n])), None)


def _goes_well_later(attempts: Sequence[Attempt], place: int, tool: str) -> bool:
    return any(one.tool == tool and not one.failed for one in attempts[place + 1 :])


def _same(attempt: Attempt, other: Attempt) -> bool:
    return other.tool == attempt.tool and not _other_words(attempt.line, other.line)


def _mends_attempt(attempt: Attempt, other: Attempt) -> bool:
    return _mends(attempt.tool, attempt.line, other)


def _mends(tool: str, line: str, other: Attempt) -> bool:
    if other.tool != tool or tool not in COMMANDS:
        return False
    if not _other_words(line, other.line):
        return True
    # Other code is another attempt at the task, and says nothing about the code that failed.
    return tool == "bash" and tells_of(line, other.line) and shared_words(line, other.line) >= _ALIKE


def _fix(before: Sequence[Attempt], line: str, mended: Attempt) -> str:
    steps = _steps(before)
    if _other_words(line, mended.line):
        steps.append(_beginning(mended.line))
    if not steps and any(step.tool == "python" and not step.failed for step in before):
        # What other code has done there is not known, and that it went well by itself would be a guess.
        return ""
    return ", then ".join(steps[-MOST_STEPS:]) or "the same command went well when it was run again"


def _steps(attempts: Sequence[Attempt]) -> list[str]:
    return list(dict.fromkeys(_step_words(attempts)))


def _step_words(attempts: Sequence[Attempt]) -> Iterator[str]:
    for step in attempts:
        if step.failed or not _acts(step):
            continue
        if step.tool == "python":
            yield _python_words(step)
        else:
            yield _beginning(step.line) if step.tool == "bash" else f"a change of {step.line}"


def _acts(step: Attempt) -> bool:
    """Whether it may have changed something that lasts; code that was tried in an interpreter of its own rarely has."""
    if step.tool in CHANGES:
        return True
    if step.tool == "python":
        return _PYTHON_WRITES.search(step.line) is not None
    family = family_of(step.line)
    return step.tool == "bash" and (family.writes or not (family.looks or family.tests or family.checks))


def _by_file(step: Attempt) -> bool:
    """Whether all that it may have changed are files: that of itself mends no test, which is what writing code is."""
    family = family_of(step.line) if step.tool == "bash" else None
    return family is None or (family.writes and not family.programs)


def _other_words(line: str, other: str) -> bool:
    return _plain(line) != _plain(other)


@lru_cache(maxsize=1024)
def _plain(line: str) -> str:
    return " ".join(line.split())


def _failure(attempt: Attempt, fix: str) -> Failure:
    what = _code(attempt.line) if attempt.tool == "bash" else _python_words(attempt)
    how = "took too long" if attempt.exit_code is None else f"ended with {attempt.exit_code}"
    return Failure("command", f"{what} {how}", telling_line(attempt.said), fix, attempt.tool, attempt.line)


def _python_words(attempt: Attempt) -> str:
    first = next((line.strip() for line in attempt.line.splitlines() if line.strip()), "")
    return f"Python code that begins with {_code(first)}"


def _code(line: str) -> str:
    """A line between marks that it does not close itself: what comes after them are words of ours."""
    inside = line.replace("`", "'")
    return f"`{inside}`"


def _beginning(line: str) -> str:
    """The first of several lines, with a mark: on one line they would look like a command and could not be run."""
    first, *more = line.strip().splitlines() or [""]
    return _code(f"{first.rstrip()} …" if more else line)


def _tool_failure(attempt: Attempt) -> Failure:
    code = _ERROR.search(attempt.said)
    how = f"failed with {code[1]}" if code else "answered with an error"
    return Failure("tool", f"The tool {attempt.tool} {how}", telling_line(attempt.said), tool=attempt.tool)
