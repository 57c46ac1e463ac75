"""Which of a run's calls failed in a way that is worth remembering, and what mended them. Pure.

What is said to have mended a line is what lay between its failure and its going well, as far as that may have changed
something. Whatever only reads, asks or plans is left out, and so is a line whose exit code may be that of another
program: somebody is to trust this, so that too little is better than something wrong.

Not worth it: programs that only look and found nothing, a misspelt path put right at once, code that is changed until
it runs, what somebody interrupted, and tests that fail until the code is right, which is what they are for.

What a shell line is about, as far as that tells two tries of the same thing from two different things. Pure.

This decides nothing that is allowed; a line that is understood wrongly makes a lesson worse, and nothing else.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.patterns.lessons import Failure

_APART = late_pattern(r"&&|\|\||;|(?<!>)\||\n")
_SETS = late_pattern(r"[A-Za-z_]\w*=\S*", re.ASCII)
_LOOKING = """
grep egrep fgrep rg ag find fd ls dir tree cat head tail less more wc stat file test [ [[ which whereis command type
diff cmp pgrep ps pwd echo printf true false jq awk sort uniq cut tr env printenv id whoami date du df sleep
"""
_SETTING = "cd export set source . unset mkdir pushd popd ulimit umask trap"
_WRAPPING = "sudo time nice nohup env exec stdbuf xargs timeout"
_WITH_SUBCOMMANDS = """
git pip pip3 uv npm pnpm yarn cargo go docker podman kubectl helm terraform aws gcloud az gh poetry conda apt apt-get
systemctl make just npx uvx
"""
_TESTING = "pytest unittest tox nox ruff mypy pyright eslint tsc jest vitest mocha flake8 pylint ctest"
_LOOKS = frozenset(_LOOKING.split())
_QUIET = _LOOKS | frozenset(_SETTING.split())
_BEFORE = frozenset(_WRAPPING.split())
_WITH_SUBCOMMAND = frozenset(_WITH_SUBCOMMANDS.split())
_TESTS = frozenset(_TESTING.split())
_TESTS_WITHIN = {
    **dict.fromkeys(("npm", "pnpm", "yarn"), ("test", "lint")),
    **dict.fromkeys(("cargo", "go"), ("test", "check", "build", "vet", "clippy")),
    **dict.fromkeys(("make", "just"), ("test", "tests", "check", "lint", "build", "typecheck")),
}
_SHELLS = frozenset({"bash", "sh", "dash", "ksh", "zsh"})
_CHECKING_WORDS = """
--help --version --dry-run --dryrun --check --check-only --syntax-check --validate-only --simulate --noop
--no-act --just-print --recon --what-if --whatif --collect-only --list --print-only
"""
_CHECKING = frozenset(_CHECKING_WORDS.split())
_CHECKING_ALONE = frozenset({"-h", "-V", "help", "version"})
"""Only where nothing comes after them: `psql -h db` is about a host."""
_CHECKING_OPTIONS = {
    **dict.fromkeys((*_SHELLS, "make", "gmake", "just", "rsync", "git"), "n"),
    **dict.fromkeys(("node", "ruby", "perl"), "c"),
    **dict.fromkeys(("apt", "apt-get"), "s"),
    "php": "l",
}
"""Letters with which a program reads its script or its plan and does nothing of it."""
_CHECKING_MODULES = frozenset({"py_compile", "compileall", "pyflakes", "tabnanny", "ast", "json"})
_ASKING = {
    "git": "status diff log show blame ls-files ls-remote rev-parse describe grep shortlog cat-file check-ignore",
    **dict.fromkeys(("pip", "pip3", "conda", "uv"), "list show freeze check info tree"),
    **dict.fromkeys(("npm", "pnpm", "yarn"), "ls list outdated view audit why info"),
    **dict.fromkeys(("docker", "podman"), "ps images logs inspect info stats top"),
    "kubectl": "get describe logs explain top diff",
    "helm": "list lint template status get show",
    "terraform": "plan validate show output",
    "systemctl": "status is-active is-enabled is-failed show list-units cat",
    **dict.fromkeys(("apt", "apt-get"), "list show search check policy"),
    "cargo": "tree metadata",
    "go": "list env",
    "poetry": "check show",
}
_ASKS = {program: frozenset(words.split()) for program, words in _ASKING.items()}
_OTHER_CHECKS = frozenset({"shellcheck", "hadolint", "yamllint", "actionlint", "checkbashisms", "visudo"})
_LAST = late_pattern(r"[;\n]")
_HIDES = late_pattern(r"\||(?<![&>])&(?![&>])|^\s*!")
"""What lets a shell line end well although the program in it did not."""
_INTERPRETER = late_pattern(r"python[\d.]*|bash|sh|node|ruby|perl", re.ASCII)
_AIDS = late_pattern(r"-|<|\d*>|[^/]*=")
"""Words that are no subcommand and no script: options, redirections, settings."""
_OF_WRAPPERS = late_pattern(r"-|\d+[smhd]?$", re.ASCII)
_WORD = late_pattern(r"[^\s'\"`;|&()<>=,]+")
_HEREDOC = late_pattern(r"""<<-?[ \t]*(['"]?)(\w++)\1""")
"""Begins a text that a program is given, with the word that ends it."""
_QUOTED = late_pattern(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|\[\[.*?\]\]|\(\(.*?\)\)""", re.DOTALL)
"""What may hold a `>` that sends nothing anywhere."""
_LONGEST = 8 * 1024
"""Characters of a line that are looked through for that: it takes the square of them at worst."""
_SENT = late_pattern(r"(?:(?<=\s)1|(?<!\s\d)(?<![&<>]))>[>|]?\s*(?![&(])(?!/dev/)[^\s<>;|&()]")
"""An output that goes into a file; not what a program complains of."""


@dataclass(frozen=True, slots=True)
class Family:
    """What a line runs."""

    # Its programs, with the subcommand of those that have some, without what only sets up or looks
    programs: frozenset[str]
    looks: bool  # Whether it only looks
    tests: bool  # Whether all it does is to test or build: then failing is what it is for
    # Whether it does nothing of what its programs are for: it asks, reads a script through, or only plans
    checks: bool = False
    writes: bool = False  # Whether what otherwise only looks writes a file: `echo yes > answers`

    def meets(self, other: Family) -> bool:
        """Whether both run the like of something."""
        return bool(self.programs & other.programs)


@lru_cache(maxsize=1024)
def family_of(line: str) -> Family:
    """What a shell line runs."""
    line = _without_texts(line)
    parts = [(part, name) for part in _APART.split(line) if (name := _program(part))]
    names = [name for _, name in parts]
    acting = frozenset(name for name in names if name.partition(" ")[0] not in _QUIET)
    writes = _writes(line)
    looks = not acting and not writes and any(_looks(name) for name in names)
    checks = bool(acting) and all(_is_check(part, name) for part, name in parts if name in acting)
    return Family(acting, looks, bool(acting) and all(_is_test(name) for name in acting), checks, writes)


def tells_of(line: str, other: str) -> bool:
    """Whether it says something about what one line runs that another one ended well.

    It does not where the other only checks, and where its exit code may be that of something else: of what comes after
    a semicolon, of the end of a pipe, of a program that was sent into the background.
    """
    other = _without_texts(other)
    last = _LAST.split(other.strip())[-1]
    if _HIDES.search(last) or family_of(other).checks:
        return False
    return family_of(line).meets(family_of(last))


def shared_words(line: str, other: str) -> float:
    """How many words two lines have in common, from 0 to 1, measured against the shorter one."""
    left, right = _words(line), _words(other)
    return len(left & right) / min(len(left), len(right)) if left and right else 0.0


@lru_cache(maxsize=1024)
def _words(line: str) -> frozenset[str]:
    return frozenset(_WORD.findall(line))


def _without_texts(line: str) -> str:
    """A shell line without the texts that programs are given in it: their lines are no commands of this one."""
    lines = line.split("\n")
    ends: dict[str, list[int]] = {}
    for number, one in enumerate(lines):
        ends.setdefault(one.strip(" \t"), []).append(number)
    kept: list[str] = []
    at = 0
    while at < len(lines):
        one, next_at = lines[at], at + 1
        for found in _HEREDOC.finditer(one):
            closing = ends.get(found[2], [])
            if (place := bisect_right(closing, at)) < len(closing):
                one, next_at = f"{one[: found.start()]} {one[found.end() :]}", closing[place] + 1
                break
        kept.append(one)
        at = next_at
    return "\n".join(kept)


def _writes(line: str) -> bool:
    if ">" not in line:
        return False
    if len(line) > _LONGEST:
        return True
    parts = _APART.split(_QUOTED.sub("q", line))
    return any(_SENT.search(part) and _looks(_program(part)) for part in parts)


def _looks(name: str) -> bool:
    return name.partition(" ")[0] in _LOOKS


def _program(part: str) -> str:
    words = _run_words(part)
    if not words:
        return ""
    program, plain = _name(words[0]), [word for word in words[1:] if not _AIDS.match(word)]
    if _INTERPRETER.fullmatch(program):
        return _interpreted(program, words[1:], plain)
    return f"{program} {plain[0]}" if program in _WITH_SUBCOMMAND and plain else program


def _run_words(part: str) -> list[str]:
    """The words of a part, from its program on."""
    try:
        words = shlex.split(part, comments=True)
    except ValueError:
        words = part.split()
    while words and (_SETS.fullmatch(words[0]) or _is_before(words[0])):
        words = words[1:]
        while words and _OF_WRAPPERS.match(words[0]):
            words = words[1:]
    return words


def _is_check(part: str, name: str) -> bool:
    words = _run_words(part)
    program, given = _name(words[0]), words[1:]
    if program in _OTHER_CHECKS or _CHECKING.intersection(given) or (given[-1:] and given[-1] in _CHECKING_ALONE):
        return True
    if name.partition(" ")[2] in _ASKS.get(program, ()):
        return True
    if program.startswith("python"):
        return given[:1] == ["-m"] and given[1:2] != [] and given[1].partition(".")[0] in _CHECKING_MODULES
    if program in _SHELLS and "noexec" in given:
        return True
    letter = _CHECKING_OPTIONS.get(program)
    return letter is not None and any(re.fullmatch(rf"-[A-Za-z]*{letter}[A-Za-z]*", word) for word in given)


def _interpreted(program: str, words: list[str], plain: list[str]) -> str:
    """A module or a script is what counts, not what reads it."""
    if "-c" in words or not plain:
        return program
    return plain[0].partition(".")[0] if words[0] == "-m" else _name(plain[0])


def _is_before(word: str) -> bool:
    return word in {"(", "{", "!"} or _name(word) in _BEFORE


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1] or word


def _is_test(name: str) -> bool:
    program, _, sub = name.partition(" ")
    return program in _TESTS or sub in _TESTS_WITHIN.get(program, ())


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
_ERROR = late_pattern(r"\[(ERR_[A-Z_]+)\]")
_TIMEOUT = late_pattern(r"\[ERR_\w*TIMEOUT\]")
_SLIP = late_pattern(r"No such file or directory|can't open file|SyntaxError|IndentationError|NameError")
_SAYS_WHY = late_pattern(r"error|denied|fatal|fail|cannot|can't|not |missing|refused|invalid|exception", re.IGNORECASE)
_AROUND = late_pattern(r"^(?:\(no output\)|\[(?:stderr|exit code \d+|ended by signal \d+|the whole output .*)\])$")
_PYTHON_WRITES = late_pattern(
    r"""\bopen\s*\([^\n]{0,200}?(?:,|mode\s*=)\s*['"](?:b?[wax][bt]?\+?b?|b?rb?\+b?)['"]"""
    r"""|\.open\s*\(\s*['"](?:[wax]|rb?\+)"""
    r"|\.write(?:_text|_bytes|lines)?\s*\(|\.(?:touch|mkdir|unlink|rmdir|chmod|symlink_to|rename|savefig|dump)\s*\("
    r"|\.to_(?:csv|excel|feather|hdf|html|json|latex|markdown|parquet|pickle|sql|stata|xml)\s*\("
    r"|\bshutil\.\w|\bsubprocess\.\w|\bos\.(?:system|popen|remove|replace|rename|makedirs|environ|putenv|kill)\b"
)
"""Code that may change something which lasts longer than its interpreter."""
_REPEATS = late_pattern(r"^g?make(?:\[\d+\])?: \*\*\* \[.*\] Error \d+$")
"""What `make` adds to what a program of it has said."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a run."""

    tool: str
    line: str  # The command or the code; of a change, the file
    said: str = ""  # The end of what came back
    failed: bool = False  # Whether it failed
    exit_code: int | None = None  # Of the command, if there was one
    foreign: bool = False  # Whether it is a tool of a toolset, whose complaints are another program's


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
    """The line of an output that says why: the last one that names an error, or else the last one; empty for none."""
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
        is_code = attempt.tool == "python"
        tried_otherwise = is_code and any(one.tool == "python" and not one.failed for one in attempts[place + 1 :])
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
    return (
        same if same is not None else next((n for n in later if _mends(attempt.tool, attempt.line, attempts[n])), None)
    )


def _same(attempt: Attempt, other: Attempt) -> bool:
    return other.tool == attempt.tool and not _other_words(attempt.line, other.line)


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
