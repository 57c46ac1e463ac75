"""Which files of a project git reads settings from or runs, asked of git itself, and whether that may run more of it.

Such a file decides what runs at the person's next `git status` or `git commit`, outside of any box.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import HostError
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.patterns.startup_settings import (
    GitSetting,
    called_paths,
    file_may_start,
    hook_folders,
    hook_may_start,
    included_paths,
    may_start,
    named_paths,
    push_addresses,
    read_settings,
    runs_more,
    starting_files,
    variable_settings,
)
from kagura_kernel.runtime.host import HostRunner, minimal_environment

_LIMITS = CommandLimits(10.0, None)
_REPOSITORY_PLACES = ("git", "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-path", "hooks")
_REPOSITORY_SETTINGS = ("git", "config", "--list", "--show-origin", "-z")
UNCLEAR = "git does not say where its settings and hooks lie"


async def more_than_git(project: Path) -> str:
    """Why a git command in the project may run more than git itself, half a sentence; empty when it does not."""
    host = HostRunner(project)
    try:
        places = _lines_of(await _repository_said(host, _REPOSITORY_PLACES))
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


async def pushes_to(project: Path) -> frozenset[str]:
    """Where a push from the project may go."""
    host = HostRunner(project)
    try:
        settings = await _repository_said(host, _REPOSITORY_SETTINGS)
    except HostError:
        settings = ""
    finally:
        await host.close()
    top = str(project)
    return push_addresses(read_settings(settings, top), top) if settings else frozenset({UNCLEAR})


async def _repository_said(host: HostRunner, words: tuple[str, ...]) -> str:
    """What a program prints; nothing when it fails."""
    result = await host.run(Command(words, limits=_LIMITS))
    return result.stdout.data.decode("utf-8", "surrogateescape") if result.ok and not result.stdout.truncated else ""


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return []


MAX_FOLDERS = 200
"""How many folders are looked into for further repositories before a run; the others when it first brings something."""

MAX_INCLUDES = 100
"""How many files of settings are read that do not hold at the moment."""

MAX_BYTES = 64 * 1024
"""How long a hook may be that is understood."""

_NEVER = (".git", ".venv", "node_modules")
_BARE = frozenset({"HEAD", "objects", "refs"})
_SECONDS = 10.0
# The last is not told by a bare repository.
_PLACES = ("git", "rev-parse", "--absolute-git-dir", "--git-common-dir", "--git-path", "hooks", "--show-toplevel")
_SETTINGS = ("git", "config", "--list", "--show-origin", "-z", "--includes")
_PACKAGES = ("git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--", ":(glob)**/__init__.py")
# What says where git's settings lie; the rest of a person's variables stays away from it.
_TOLD = ("GIT_CONFIG", "XDG_CONFIG_HOME")
# What a repository lacks is not fetched: its settings say from where, and by which program. Older versions of git know
# the second variable alone, by which no way of fetching is allowed.
_NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}


def environment_of_git(environ: Mapping[str, str], project: Path) -> dict[str, str]:
    """What git sees of a person's variables, where it is asked about their project; it fetches nothing."""
    told = {name: value for name, value in environ.items() if name.startswith(_TOLD)}
    return {**minimal_environment(environ, project), **told, **_NO_FETCH}


class GitPlaces:
    """What git reads or runs of a project. Where there is no git, or it does not answer, that is nothing.

    Making one blocks, for as long as git needs to say what it knows, and so do its methods.

    Args:
        project: The project's root, absolute and without links.
        environ: The person's variables.
    """

    def __init__(self, project: Path, environ: Mapping[str, str]) -> None:
        self._project = project
        self._variables = tuple(variable_settings(environ))
        self._environment = environment_of_git(environ, project)
        self._asked: dict[Path, tuple[str, ...]] = {}
        self._one_asks = threading.RLock()
        self._folders: Iterator[tuple[Path, set[str]]] | None = _walked(project)
        # Paths below the root, each as a whole and whether they exist or not: hooks, settings, templates, and programs
        # that settings name
        self.held: tuple[str, ...] = ()
        self.starter = ""  # What may run any other file of the project, in a few words; empty where nothing does
        # Folders below the root that are packages by what git follows; known once `finish` was called
        self.packages: frozenset[str] = frozenset()
        self._look_into(islice(self._folders, MAX_FOLDERS))

    def finish(self) -> None:
        """Look into all folders that were not looked into at first, and at what git follows; once."""
        with self._one_asks:
            if self._folders is not None:
                self._look_into(self._folders)
                self.packages = frozenset(package for place in self._asked for package in self._packages(place))
                self._folders = None

    def held_in(self, folder: str) -> tuple[str, ...]:
        """The same for a repository of its own, in a folder below the root, wherever it lies."""
        return self._ask(self._project / folder)

    def _look_into(self, folders: Iterable[tuple[Path, set[str]]]) -> None:
        found = list(self.held)
        for folder, names in folders:
            if folder == self._project or ".git" in names or names >= _BARE:
                found += self._ask(folder)
            for file in starting_files(names):
                path = folder / file
                text = _lines(path) if path.is_file() else ""
                if text is None or (text and file_may_start(file, text, str(self._project))):
                    self._note(path.relative_to(self._project).as_posix())
        self.held = _outermost(found)

    def _ask(self, directory: Path) -> tuple[str, ...]:
        with self._one_asks:
            if directory not in self._asked:
                found = (inner for path in self._held(directory) for inner in _below(path, str(self._project)))
                self._asked[directory] = _outermost(found)
            return self._asked[directory]

    def _held(self, directory: Path) -> Iterator[str]:
        """Absolute paths of what git reads or runs there; what of it may run more is noted."""
        places = _lines_of(self._said(_PLACES, directory, fails=True))
        if len(places) < 3:  # noqa: PLR2004 - as many as every repository tells
            return
        git_directory, common, hooks, *tops = (os.path.join(directory, place) for place in places)  # noqa: PTH118 - text
        yield from (git_directory, common, hooks)
        top, home = tops[0] if tops else str(directory), self._environment.get("HOME", "/")
        settings = self._settings(directory, top, home)
        for folder in dict.fromkeys((os.path.normpath(hooks), *hook_folders(settings, top, home))):
            yield from self._hooks(Path(folder), top)
        for setting in settings:
            if may_start(setting, top):
                self._note(f"git's setting {setting.name}")
        yield from named_paths(settings, top, home, os.path.isfile)
        for variable, setting in self._variables:
            named = [path for path in named_paths([setting], top, home, os.path.isfile) if path]
            yield from named
            # A person's own editor or pager may be any program: only what is of the project counts.
            if any(self._owns(Path(os.path.normpath(path))) for path in named) and may_start(setting, top):
                self._note(f"the variable {variable}")

    def _hooks(self, folder: Path, top: str) -> Iterator[str]:
        if folder.name == "_":
            # husky keeps what runs the hooks in a folder of its own, inside of the one that holds them.
            yield str(folder.parent)
            yield from self._hooks(folder.parent, top)
        for path in _entries(folder):
            if path.is_symlink():
                yield str(path)
            if path.is_file() and path.suffix != ".sample":
                lines = _lines(path)
                if lines is None or hook_may_start(lines, top):
                    self._note(f"git's hook {path.relative_to(self._project) if self._owns(path) else path.name}")
                yield from called_paths(lines or "", top, os.path.isfile)

    def _settings(self, directory: Path, top: str, home: str) -> list[GitSetting]:
        """All that hold there, and those that would if the condition of an include came true."""
        settings = read_settings(self._said(_SETTINGS, directory), top)
        known = {setting.file for setting in settings}
        waiting = list(included_paths(settings, home))
        while waiting and len(known) < MAX_INCLUDES:
            file = waiting.pop()
            if file in known or not Path(file).is_file():
                continue
            known.add(file)
            further = read_settings(self._said((*_SETTINGS[:2], "--file", file, *_SETTINGS[2:]), directory), top)
            settings += further
            waiting += included_paths(further, home)
        return settings

    def _packages(self, directory: Path) -> Iterator[str]:
        for file in self._said(_PACKAGES, directory).split("\0"):
            yield from _below(str((directory / file).parent) if file else "", str(self._project))

    def _owns(self, path: Path) -> bool:
        return self._project in path.parents and ".git" not in path.parts

    def _note(self, starter: str) -> None:
        self.starter = self.starter or starter

    def _said(self, words: tuple[str, ...], directory: Path, *, fails: bool = False) -> str:
        try:
            done = subprocess.run(  # noqa: S603 - our own words
                words,
                cwd=directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return os.fsdecode(done.stdout) if fails or done.returncode == 0 else ""


def _lines_of(told: str) -> list[str]:
    """Lines as git ends them: a form feed, or whatever else Python takes for an end, stands in the name of a folder."""
    return told.removesuffix("\n").split("\n") if told else []


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    outermost: list[str] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(f"{other}/") for other in outermost):
            outermost.append(path)
    return tuple(outermost)


def _walked(project: Path) -> Iterator[tuple[Path, set[str]]]:
    """The folders of a project, its own first, and the names in each."""
    waiting = deque([project])
    while waiting:
        folder = waiting.popleft()
        names = set()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    names.add(entry.name)
                    if entry.name not in _NEVER and entry.is_dir(follow_symlinks=False):
                        waiting.append(folder / entry.name)
        except OSError:
            continue
        yield folder, names


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        # One that is not there has none.
        return []


def _lines(path: Path) -> str | None:
    """What a hook says; None of one that is no text, too long, or cannot be read."""
    try:
        with path.open("rb") as file:
            read = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    return None if b"\0" in read or len(read) > MAX_BYTES else os.fsdecode(read)


def _below(path: str, project: str) -> Iterator[str]:
    """The path as the project names it, by its own name and by the one that links lead to; nothing when outside."""
    if not path.startswith("/"):
        return
    for place in (os.path.normpath(path), os.path.realpath(path)):
        inner = place.removeprefix(f"{project}/")
        if inner != place and ".git" not in inner.split("/"):
            yield inner
