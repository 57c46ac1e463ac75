"""Which files of a project git reads settings from or runs, asked of git itself.

Such a file decides what runs at the person's next `git status` or `git commit`, outside of any box.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kagura_kernel.patterns.git_settings import called_paths, named_paths, read_settings, run_lines
from kagura_kernel.runs.git_calls import GitCalls, beginning
from kagura_kernel.runtime.host import minimal_environment

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
