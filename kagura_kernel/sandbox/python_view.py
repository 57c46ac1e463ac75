"""What of the kernel's own Python a box must see so that `python` in it is the same interpreter with the same packages.

Only the interpreter's prefixes and package directories are shown, each at its own path and read-only. What an
editable install points to, PYTHONPATH, and everything else on the import path stay outside. A prefix that holds more
than an interpreter (a home directory, the project itself) is shown by its known parts only. Configuration, where
passwords and tokens live, is covered wherever a prefix has it: an interpreter needs none.
"""

# ruff: noqa: PTH110, PTH112, PTH113, PTH114, PTH115, PTH118, PTH120, PTH207, PTH208

from __future__ import annotations

import glob
import os
import site
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store")
"""Host directories that every box sees anyway."""

NAMES = ("python", "python3")
"""What the interpreter is called in a box, beside its own name."""

_PARTS = ("bin", "lib", "lib64", "include", "share", "ssl", "pyvenv.cfg")
# What may hold a password of a package index or a key, and other environments with the like in them.
_PRIVATE = (
    *("pip.conf", "uv.toml", ".netrc", ".pypirc", ".npmrc", ".env", ".git-credentials"),
    *(".condarc", "condarc", "condarc.d", "conda-meta", "envs", "ssl/private"),
)
# All else in a prefix's `etc` is somebody's configuration: of a Jupyter server, its hashed password among it.
_HARMLESS_IN_ETC = frozenset(("ca-certificates", "fonts", "openssl", "pki", "ssl"))
# Jupyter and others read these in every environment; boxes see them as parts of the system.
_SYSTEM_PREFIXES = ("/usr", "/usr/local")


@dataclass(frozen=True, slots=True)
class PythonView:
    """What is shown, as paths that are the same on the host and in the box."""

    python: str  # the interpreter
    directories: tuple[str, ...] = ()  # shown read-only, none inside another or inside `SYSTEM`
    # (path, target) of symbolic links on the way from the interpreter's name to its file.
    links: tuple[tuple[str, str], ...] = ()
    # Files and directories below them, or below the system's, that are covered with empty ones.
    hidden: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()  # variables the interpreter needs to find everything
    path: tuple[str, ...] = ()  # directories in front of PATH
    # Directories that packages are installed into; a box may have a layer of its own over each.
    layered: tuple[str, ...] = ()
    own: tuple[str, ...] = ()  # directories that such a box has of its own, empty at first
    packages: tuple[str, ...] = ()  # directories whose time of change tells that something was installed on the host

    def as_setup(self, *names: str) -> dict[str, Any]:
        """What a supervisor is set up with: these are further names of the interpreter in a box."""
        return {**asdict(self), "shims": [[name, self.python] for name in names]}


def current_view(project: Path | None = None) -> PythonView:
    """The view of the running interpreter; no prefix reveals the home directory or the project as a whole."""
    user_site = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return find_view(
        python=sys.executable,
        prefixes=(sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix),
        user_site=user_site if user_site in sys.path else None,
        avoid=[Path.home(), *([project] if project else [])],
        system=_SYSTEM_PREFIXES,
    )


def find_view(
    *,
    python: str,
    prefixes: Iterable[str],
    user_site: str | None = None,
    avoid: Iterable[Path] = (),
    system: Iterable[str] = (),
) -> PythonView:
    """The view of any interpreter with its own prefix and that of the installation it was made from; changes nothing.

    `user_site` are the user's own packages, when they are in use. No prefix reveals what is to be avoided as a whole.
    The `system` prefixes are seen by every box anyway, and their configuration is covered too.
    """
    kept_apart = [str(path) for path in avoid]
    shown: list[str] = []
    env: list[tuple[str, str]] = []
    python = _upright(python)
    prefixes = tuple(prefixes)
    names = [name for prefix in prefixes for name in (prefix, os.path.realpath(prefix))]
    for path in dict.fromkeys(names):
        shown += [path] if _is_apart(path, kept_apart) else _parts(path)
    own: list[str] = []
    if user_site is not None and os.path.isdir(user_site):
        shown.append(user_site)
        base = site.getuserbase()
        env.append(("PYTHONUSERBASE", base))
        own.append(f"{base}/bin")
    directories = _outermost(shown)
    layered = _layered(prefixes, directories, user_site)
    return PythonView(
        python=python,
        directories=directories,
        links=tuple(_links(python, directories)),
        hidden=_hidden((*names, *system), (*SYSTEM, *directories), needed=(python, os.path.realpath(python), *names)),
        env=tuple(env),
        path=(os.path.dirname(python), *own),
        layered=layered,
        own=tuple(path for path in own if not any(_inside(path, place) for place in (*SYSTEM, *directories))),
        packages=tuple(_packages(layered)),
    )


def _upright(python: str) -> str:
    """The interpreter's name without `..`, which it keeps when it was started by a relative one; a link stays one."""
    folder, name = os.path.split(python)
    return f"{os.path.realpath(folder)}/{name}" if os.pardir in folder.split("/") else python


def _layered(prefixes: Sequence[str], directories: Iterable[str], user_site: str | None) -> tuple[str, ...]:
    """What is shown of the first prefix, in which its packages are, and of the user's own packages."""
    if not prefixes:
        return ()
    home = os.path.realpath(prefixes[0])
    found = [
        path
        for path in directories
        if os.path.isdir(path) and (path == user_site or _inside(os.path.realpath(path), home))
    ]
    # A virtual environment among the system's directories is in nobody else's way; the system's own Python is.
    if os.path.isfile(f"{home}/pyvenv.cfg") and any(_inside(home, place) for place in SYSTEM):
        found.append(home)
    return tuple(found)


def _packages(layered: Iterable[str]) -> Iterable[str]:
    for path in layered:
        yield path
        for parts in ("lib*/python*", "python*"):
            yield from sorted(glob.glob(f"{glob.escape(path)}/{parts}/*-packages"))


def _is_apart(prefix: str, avoid: Iterable[str]) -> bool:
    """Whether a prefix is a directory of its own: it holds none of the others and is not the root."""
    real = os.path.realpath(prefix)
    return real != "/" and not any(_inside(os.path.realpath(path), real) for path in avoid)


def _parts(prefix: str) -> list[str]:
    return [path for name in _PARTS if os.path.exists(path := f"{prefix}/{name}")]


def _hidden(prefixes: Iterable[str], visible: Iterable[str], needed: Iterable[str]) -> tuple[str, ...]:
    """What is private in the prefixes and would be seen; nothing that holds one of the needed paths."""
    seen, kept = tuple(visible), tuple(needed)
    found = {
        path
        for prefix in prefixes
        for path in _private(prefix)
        if any(_inside(path, place) for place in seen) and not any(_inside(place, path) for place in kept)
    }
    # What lies in a covered directory is not there to be covered.
    return tuple(sorted(path for path in found if not any(path != other and _inside(path, other) for other in found)))


def _private(prefix: str) -> Iterable[str]:
    """Existing paths below a prefix that are nobody else's business, without links in them."""
    here = os.path.realpath(prefix)
    try:
        in_etc = [f"etc/{name}" for name in os.listdir(f"{here}/etc") if name not in _HARMLESS_IN_ETC]
    except OSError:
        in_etc = []
    for name in (*_PRIVATE, *in_etc):
        real = os.path.realpath(f"{here}/{name}")
        # A link that leads out of the prefix reaches what is shown for another reason, or nothing.
        if os.path.exists(real) and _inside(real, here) and real != here:
            yield prefix.rstrip("/") + real.removeprefix(here)


def _inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Existing paths, sorted, without those that another one or the system's directories already show."""
    found: list[str] = []
    for path in sorted({path.rstrip("/") for path in paths if os.path.exists(path)}):
        if not any(_inside(path, other) for other in (*SYSTEM, *found)):
            found.append(path)
    return tuple(found)


def _links(python: str, directories: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Links between the interpreter's name and its file that lie outside of what is shown."""
    visible = (*SYSTEM, *directories)
    here = python
    for _ in range(16):
        if not os.path.islink(here):
            return
        target = os.path.normpath(os.path.join(os.path.dirname(here), os.readlink(here)))
        if not any(_inside(here, directory) for directory in visible):
            yield here, target
        here = target
