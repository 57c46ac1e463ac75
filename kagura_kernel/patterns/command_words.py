"""What a shell line is about, as far as that tells two tries of the same thing from two different things. Pure.

This decides nothing that is allowed; a line that is understood wrongly makes a lesson worse, and nothing else.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache

_APART = re.compile(r"&&|\|\||[;|\n]")
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
_INTERPRETER = re.compile(r"python[\d.]*|bash|sh|node|ruby|perl", re.ASCII)
_AIDS = re.compile(r"-|<|\d*>|[^/]*=")
"""Words that are no subcommand and no script: options, redirections, settings."""
_OF_WRAPPERS = re.compile(r"-|\d+[smhd]?$", re.ASCII)
_WORD = re.compile(r"[^\s'\"`;|&()<>=,]+")


@dataclass(frozen=True, slots=True)
class Family:
    """What a line runs.

    Attributes:
        programs: Its programs, with the subcommand of those that have some, without what only sets up or looks.
        looks: Whether it only looks.
        tests: Whether all it does is to test or build: then failing is what it is for.
    """

    programs: frozenset[str]
    looks: bool
    tests: bool

    def meets(self, other: Family) -> bool:
        """Whether both run the like of something."""
        return bool(self.programs & other.programs)


@lru_cache(maxsize=1024)
def family_of(line: str) -> Family:
    """What a shell line runs."""
    names = [name for part in _APART.split(line) if (name := _program(part))]
    acting = frozenset(name for name in names if name.partition(" ")[0] not in _QUIET)
    looks = not acting and any(name.partition(" ")[0] in _LOOKS for name in names)
    return Family(acting, looks, bool(acting) and all(_is_test(name) for name in acting))


def shared_words(line: str, other: str) -> float:
    """How many words two lines have in common, from 0 to 1, measured against the shorter one."""
    left, right = _words(line), _words(other)
    return len(left & right) / min(len(left), len(right)) if left and right else 0.0


@lru_cache(maxsize=1024)
def _words(line: str) -> frozenset[str]:
    return frozenset(_WORD.findall(line))


def _program(part: str) -> str:
    try:
        words = shlex.split(part, comments=True)
    except ValueError:
        words = part.split()
    while words and (_SETS.fullmatch(words[0]) or _is_before(words[0])):
        words = words[1:]
        while words and _OF_WRAPPERS.match(words[0]):
            words = words[1:]
    if not words:
        return ""
    program, plain = _name(words[0]), [word for word in words[1:] if not _AIDS.match(word)]
    if _INTERPRETER.fullmatch(program):
        return _interpreted(program, words[1:], plain)
    return f"{program} {plain[0]}" if program in _WITH_SUBCOMMAND and plain else program


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
