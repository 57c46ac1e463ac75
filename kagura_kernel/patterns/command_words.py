"""What a shell line is about, as far as that tells two tries of the same thing from two different things. Pure.

This decides nothing that is allowed; a line that is understood wrongly makes a lesson worse, and nothing else.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache

_APART = re.compile(r"&&|\|\||;|(?<!>)\||\n")
_SETS = re.compile(r"[A-Za-z_]\w*=\S*", re.ASCII)
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
_LAST = re.compile(r"[;\n]")
_HIDES = re.compile(r"\||(?<![&>])&(?![&>])|^\s*!")
"""What lets a shell line end well although the program in it did not."""
_INTERPRETER = re.compile(r"python[\d.]*|bash|sh|node|ruby|perl", re.ASCII)
_AIDS = re.compile(r"-|<|\d*>|[^/]*=")
"""Words that are no subcommand and no script: options, redirections, settings."""
_OF_WRAPPERS = re.compile(r"-|\d+[smhd]?$", re.ASCII)
_WORD = re.compile(r"[^\s'\"`;|&()<>=,]+")
_HEREDOC = re.compile(r"""<<-?[ \t]*(['"]?)(\w+)\1([^\n]*)\n(?:[^\n]*\n)*?[ \t]*\2[ \t]*(?=\n|\Z)""")
"""A text that a program is given; its lines are no commands of this one."""
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|\[\[.*?\]\]|\(\(.*?\)\)""", re.DOTALL)
"""What may hold a `>` that sends nothing anywhere."""
_SENT = re.compile(r"(?:(?<=\s)1|(?<!\s\d)(?<![&<>]))>[>|]?\s*(?![&(])(?!/dev/)[^\s<>;|&()]")
"""An output that goes into a file; not what a program complains of."""


@dataclass(frozen=True, slots=True)
class Family:
    """What a line runs.

    Attributes:
        programs: Its programs, with the subcommand of those that have some, without what only sets up or looks.
        looks: Whether it only looks.
        tests: Whether all it does is to test or build: then failing is what it is for.
        checks: Whether it does nothing of what its programs are for: it asks, reads a script through, or only plans.
        writes: Whether what otherwise only looks writes a file: `echo yes > answers`.
    """

    programs: frozenset[str]
    looks: bool
    tests: bool
    checks: bool = False
    writes: bool = False

    def meets(self, other: Family) -> bool:
        """Whether both run the like of something."""
        return bool(self.programs & other.programs)


@lru_cache(maxsize=1024)
def family_of(line: str) -> Family:
    """What a shell line runs."""
    line = _HEREDOC.sub(r" \3", line)
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
    other = _HEREDOC.sub(r" \3", other)
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


def _writes(line: str) -> bool:
    if ">" not in line:
        return False
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
