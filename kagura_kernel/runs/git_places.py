"""Which files of a project git reads settings from or runs, asked of git itself.

Such a file decides what runs at the person's next `git status` or `git commit`, outside of any box.

Which files of a project git's hooks and aliases may run, by the words in them.

No shell is understood here: a script is called from whatever folder a line has gone to, through variables, quotes and
other programs. So a file counts where its path ends as a word does, and so does a module with a name that is imported.
That finds too much rather than too little: such a file is not refused, it waits for a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import HostError
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.names import folded_path
from kagura_kernel.patterns.git_settings import called_paths, named_paths, read_settings, run_lines, runs_more
from kagura_kernel.runtime.host import HostRunner, minimal_environment

_LIMITS = CommandLimits(10.0, None)
_REPOSITORY_PLACES = ("git", "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-path", "hooks")
_REPOSITORY_SETTINGS = ("git", "config", "--list", "--show-origin", "-z")
UNCLEAR = "git does not say where its settings and hooks lie"


async def more_than_git(project: Path) -> str:
    """Why a git command in the project may run more than git itself, half a sentence; empty when it does not."""
    host = HostRunner(project)
    try:
        places = (await _repository_said(host, _REPOSITORY_PLACES)).splitlines()
        settings = await _repository_said(host, _REPOSITORY_SETTINGS)
    except HostError:
        return UNCLEAR
    finally:
        await host.close()
    if len(places) != 3 or not settings:  # noqa: PLR2004 - as many as were asked for
        return UNCLEAR
    try:
        root = str(await asyncio.to_thread(project.resolve))
        hooks = await asyncio.to_thread(_names, project / places[2])
    except OSError:
        return UNCLEAR
    return runs_more(read_settings(settings, places[0]), hooks, root, places[1], places[0])


async def _repository_said(host: HostRunner, words: tuple[str, ...]) -> str:
    """What a program prints; nothing when it fails."""
    result = await host.run(Command(words, limits=_LIMITS))
    return result.stdout.data.decode("utf-8", "surrogateescape") if result.ok and not result.stdout.truncated else ""


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return []


MAX_SCRIPTS = 100
"""How many files that are named, by a hook or by one of them in its turn, are read for what they name."""

MAX_BYTES = 64 * 1024
"""How much is read of each."""

_BETWEEN = re.compile(r"\$\{?\w+\}?|\$|[^\w./~@+%$-]+")
_BEFORE = re.compile(r"~?/+|\.\./")
# Modules by their name alone: that an interpreter is started with, that a text imports, or that a function is told.
_MODULES = re.compile(
    r"(?<![\w-])-(?:[mM]\s*|[A-Za-z]{1,4}[mM]\s+)([A-Za-z_]\w*)|"
    r"(?:^|[;:{\"'])[ \t]*from[ \t]+(\w+)[\w.]*[ \t]+import\b|"
    r"(?:^|[;:{\"'])[ \t]*import[ \t]+(\w[\w., \t]*)|"
    r"(?:^|[;:{\"'])[ \t]*use[ \t]+(\w+)[^;\n]*;|"
    r"(?:\bimport\w*|\brequire(?:_relative)?)[ \t]*\(?[ \t]*[\"']([\w/]+)",
    re.MULTILINE,
)
# A path that an importer completes with an ending.
_RELATIVE = re.compile(r"\.{1,2}/[\w./@+-]*\w")
_STARTS = ("__main__.py", "index.js")
"""What an interpreter runs of a folder that it is given."""

_SCRIPT = re.compile(
    r"(?:[^.]+|.*\.(?:bash|cjs|js|lua|mjs|node|php|pl|pm|pyc?|rb|sh|so|ts|zsh)|\.pre-commit-config\.yaml)"
)
_COMPLETED = re.compile(r".*\.[cm]?[jt]s")
# What hooks name most, and nobody runs.
_SHOWN = re.compile(r".*\.(?:csv|jpe?g|md|pdf|png|rst|svg|tsv)")


class GitCalls:
    """What hooks and aliases name of files, and what those name in their turn. Grows; is asked by path."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._modules: set[str] = set()
        self._read: set[str] = set()

    def follow(self, lines: str, top: str, own: str) -> None:
        """Note what lines name, and what the scripts that they lead to name.

        Args:
            lines: Of a hook, or of a setting that runs something.
            top: Where they are carried out, absolute.
            own: The folder of the file that they are in, absolute.
        """
        inside = cache(_inside)
        waiting = [(lines, own)]
        for text, folder in waiting:
            words = set(_words(text))
            self._names.update(map(folded_path, words))

            def named(bases: Iterable[str], words: set[str] = words) -> set[str]:
                there = ((base, word) for base in bases for word in words if word.partition("/")[0] in inside(base))
                return {f"{base}/{word}" for base, word in there}

            # A line may go to any folder that it names before it calls something by a shorter path.
            folders = {top, folder, *filter(os.path.isdir, named((top, folder)))}
            modules = {os.path.normpath(f"{base}/{name}") for base in folders for name in _modules(text)}
            self._modules.update(map(folded_path, modules))
            found = named(folders) | {f"/{word}" for word in words if word.startswith(f"{top[1:]}/")}
            found |= {f"{base}/{name}" for base in folders - {top, folder} for name in _STARTS}
            for module in modules:
                parent, name = os.path.split(module)
                found |= {f"{parent}/{entry}" for entry in inside(parent) if entry.startswith(f"{name}.")}
                found |= {f"{module}/{entry}" for entry in inside(module)}
            waiting += self._unread(found)

    def may_run(self, path: str) -> bool:
        """Whether the file at an absolute path is one of them, there or not."""
        if not self._names and not self._modules:
            return False
        whole = folded_path(path)
        parts = whole.split("/")[1:]
        ends = {"/".join(parts[number:]) for number in range(len(parts))}
        # node completes the name that it is given.
        ends.update([end.rpartition(".")[0] for end in ends] if _COMPLETED.fullmatch(whole) else ())
        # Of a name with blanks in it, the words have the last part.
        ends.update(list(_words(whole))[-1:])
        folder, _, name = whole.rpartition("/")
        pieces = name.split(".")
        beginnings = {"/" + "/".join(parts[:number]) for number in range(1, len(parts) + 1)}
        beginnings |= {f"{folder}/{'.'.join(pieces[:number])}" for number in range(1, len(pieces))}
        if _SHOWN.fullmatch(name):
            return False
        if not ends.isdisjoint(self._names):
            return True
        return _SCRIPT.fullmatch(name) is not None and not beginnings.isdisjoint(self._modules)

    def _unread(self, files: Iterable[str]) -> Iterator[tuple[str, str]]:
        """What such of these files begin with as are scripts and were not read before, and their folders."""
        for file in sorted(files):
            folder, name = os.path.split(file)
            if file in self._read or not _SCRIPT.fullmatch(name) or not Path(file).is_file():
                continue
            if len(self._read) >= MAX_SCRIPTS:
                return
            self._read.add(file)
            self._names.add(folded_path(os.path.realpath(file)[1:]))
            yield beginning(file), folder


def beginning(path: str) -> str:
    """What a file begins with; nothing of one that is no text, or cannot be read."""
    try:
        with Path(path).open("rb") as file:
            read = file.read(MAX_BYTES)
    except OSError:
        return ""
    return "" if b"\0" in read else os.fsdecode(read)


def _words(text: str) -> Iterator[str]:
    """Whatever may be a path, without what leads to its first folder."""
    for word in _BETWEEN.split(text):
        path = os.path.normpath(word) if word else ""
        while (before := _BEFORE.match(path)) is not None:
            path = path[before.end() :]
        if path.strip("."):
            yield path


def _modules(text: str) -> Iterator[str]:
    """What is imported, as paths without an ending; of a package its first folder."""
    for names in _MODULES.findall(text):
        for name in ",".join(names).split(","):
            yield from name.replace(".", " ").split()[:1]
    yield from _RELATIVE.findall(text)


def _inside(folder: str) -> frozenset[str]:
    try:
        return frozenset(path.name for path in Path(folder).iterdir())
    except OSError:
        return frozenset()


MAX_DEPTH = 3
"""How deep below a project's root repositories of their own, submodules among them, are looked for at first."""

MAX_FOLDERS = 500
"""How many folders are looked into for them."""

_NEVER = (".git", ".venv", "node_modules")
_SECONDS = 10.0
_PLACES = ("git", "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "hooks")
_SETTINGS = ("git", "config", "--list", "--show-origin", "-z", "--includes")
# What says where git's settings lie; the rest of a person's variables stays away from it.
_TOLD = ("GIT_CONFIG", "XDG_CONFIG_HOME")


class GitPlaces:
    """What git reads or runs of a project. Where there is no git, or it does not answer, that is nothing.

    Making one blocks, for as long as git needs to say what it knows, and so does `held_in`.

    Args:
        project: The project's root, absolute and without links.
        environ: The person's variables.

    Attributes:
        held: Paths below the root, each as a whole and whether they exist or not: hooks, settings, templates, and
            programs that settings name.
    """

    def __init__(self, project: Path, environ: Mapping[str, str]) -> None:
        told = {name: value for name, value in environ.items() if name.startswith(_TOLD)}
        self._project = project
        self._environment = {**minimal_environment(environ, project), **told}
        self._calls = GitCalls()
        self._asked: dict[Path, tuple[str, ...]] = {}
        self._one_asks = threading.Lock()
        self.held = _outermost(path for place in _repositories(project) for path in self._ask(place))

    def held_in(self, folder: str) -> tuple[str, ...]:
        """The same for a repository of its own, in a folder below the root, wherever it lies."""
        return self._ask(self._project / folder)

    def may_run(self, path: str) -> bool:
        """Whether the file at a path below the root, there or not, may be run by a hook or an alias that names it."""
        return self._calls.may_run(f"{self._project}/{path}")

    def _ask(self, directory: Path) -> tuple[str, ...]:
        with self._one_asks:
            if directory not in self._asked:
                held = _held(directory, self._environment, self._calls)
                found = (inner for path in held for inner in _below(path, str(self._project)))
                self._asked[directory] = _outermost(found)
            return self._asked[directory]


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    outermost: list[str] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(f"{other}/") for other in outermost):
            outermost.append(path)
    return tuple(outermost)


def _repositories(project: Path) -> Iterator[Path]:
    """The project itself, which may lie in a repository or be one, and repositories below it."""
    yield project
    level, left = [project], MAX_FOLDERS
    for _ in range(MAX_DEPTH + 1):
        following: list[Path] = []
        for folder in level[: max(0, left)]:
            left -= 1
            try:
                with os.scandir(folder) as entries:
                    inside = [entry for entry in entries if entry.name == ".git" or entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            if folder != project and any(entry.name == ".git" for entry in inside):
                yield folder
            following += [folder / entry.name for entry in inside if entry.name not in _NEVER]
        level = following


def _held(directory: Path, environment: Mapping[str, str], calls: GitCalls) -> Iterator[str]:
    """Absolute paths of what git reads or runs there; what that calls in its turn is added to the calls."""
    places = _said(_PLACES, directory, environment).splitlines()
    if len(places) != 4:  # noqa: PLR2004 - as many as were asked for
        return
    top, git_directory, common, hooks = (os.path.join(directory, place) for place in places)  # noqa: PTH118 - text
    yield from (git_directory, common, hooks)
    folders = [hooks]
    # husky keeps what runs the hooks in a folder of its own, inside of the one that holds them.
    if Path(hooks).name == "_":
        folders.append(str(Path(hooks).parent))
        yield folders[-1]
    for folder in folders:
        # One that is not there has none.
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                if entry.is_symlink():
                    yield entry.path
                if entry.is_file() and not entry.name.endswith(".sample"):
                    lines = beginning(entry.path)
                    calls.follow(lines, top, folder)
                    yield from called_paths(lines, top, os.path.isfile)
    settings = read_settings(_said(_SETTINGS, directory, environment), top)
    for lines in run_lines(settings):
        calls.follow(lines, top, top)
    yield from named_paths(settings, top, environment.get("HOME", "/"), os.path.isfile)


def _said(words: tuple[str, ...], directory: Path, environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            words,
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout) if done.returncode == 0 else ""


def _below(path: str, project: str) -> Iterator[str]:
    """The path as the project names it, by its own name and by the one that links lead to; nothing when outside."""
    if not path.startswith("/"):
        return
    for place in (os.path.normpath(path), os.path.realpath(path)):
        inner = place.removeprefix(f"{project}/")
        if inner != place and ".git" not in inner.split("/"):
            yield inner
