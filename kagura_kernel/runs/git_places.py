"""Which files of a project git reads settings from or runs, asked of git itself.

Such a file decides what runs at the person's next `git status` or `git commit`, outside of any box.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from kagura_kernel.patterns.git_settings import called_paths, named_paths, read_settings
from kagura_kernel.runtime.host import minimal_environment

MAX_DEPTH = 3
"""How deep below a project's root repositories of their own, submodules among them, are looked for."""

MAX_FOLDERS = 500
"""How many folders are looked into for them."""

MAX_HOOK_BYTES = 64 * 1024
"""How much of a hook is read for what it runs in its turn."""

_NEVER = (".git", ".venv", "node_modules")
_SECONDS = 10.0
_PLACES = ("git", "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "hooks")
_SETTINGS = ("git", "config", "--list", "--show-origin", "-z", "--includes")
# What says where git's settings lie; the rest of a person's variables stays away from it.
_TOLD = ("GIT_CONFIG", "XDG_CONFIG_HOME")


def git_places(project: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Paths below the project's root, each as a whole: hooks, settings, templates, and programs that settings name.

    Whether they exist or not. Blocks, for as long as git needs to say what it knows. Where there is no git, or it does
    not answer, nothing is found.

    Args:
        project: The project's root, absolute and without links.
        environ: The person's variables.
    """
    told = {name: value for name, value in environ.items() if name.startswith(_TOLD)}
    environment = {**minimal_environment(environ, project), **told}
    found: set[str] = set()
    for repository in _repositories(project):
        for path in _held(repository, environment):
            found.update(_below(path, str(project)))
    outermost: list[str] = []
    for path in sorted(found):
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


def _held(directory: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Absolute paths of what git reads or runs there."""
    places = _said(_PLACES, directory, environment).splitlines()
    if len(places) != 4:  # noqa: PLR2004 - as many as were asked for
        return
    top, git_directory, common, hooks = (os.path.join(directory, place) for place in places)  # noqa: PTH118 - text
    yield from (git_directory, common, hooks)
    # husky keeps what runs the hooks in a folder of its own, inside of the one that holds them.
    if Path(hooks).name == "_":
        yield str(Path(hooks).parent)
    # A folder that is not there has none.
    with contextlib.suppress(OSError):
        for entry in os.scandir(hooks):
            if entry.is_symlink():
                yield entry.path
            if entry.is_file() and not entry.name.endswith(".sample"):
                yield from called_paths(_beginning(entry.path), top, os.path.isfile)
    settings = read_settings(_said(_SETTINGS, directory, environment), top)
    yield from named_paths(settings, top, environment.get("HOME", "/"), os.path.isfile)


def _beginning(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - what the folder's list has
        return os.fsdecode(file.read(MAX_HOOK_BYTES))


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
