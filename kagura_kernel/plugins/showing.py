"""Which place of the host a permission's path means, and whether a jail may see it. Looks at paths, opens nothing."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kagura_kernel.domain.errors import WorkspaceRefused
from kagura_kernel.membrane.mounts import refuse_private
from kagura_kernel.membrane.names import PROTECTED_NAMES, is_protected_name
from kagura_kernel.plugins.paths import NotShown, Written


@dataclass(frozen=True, slots=True)
class Ground:
    """What paths begin with, and what is nobody's business.

    Attributes:
        project: What `./` and a person's relative path begin with.
        home: What `~/` begins with; None where there is none.
        private: Directories of ours and of Jupyter's.
    """

    project: Path
    home: Path | None
    private: Sequence[Path]


def find_path(written: Written, ground: Ground, *, writable: bool, person: bool) -> Path:
    """The file or directory of the host, absolute and without links.

    Args:
        written: What names it.
        ground: What it is relative to.
        writable: Whether it is to be changed.
        person: Whether a person named it, not the plugin's author.

    Raises:
        NotShown: there is none, or it is one that is never shown.
    """
    named = _absolute(written.path, ground)
    try:
        found = named.resolve(strict=True)
        mode = found.stat().st_mode
    except (OSError, RuntimeError) as error:
        raise NotShown(_why_missing(written, named, error)) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise NotShown("it is neither a file nor a directory")
    inside = _is_in(found, ground.project.resolve())
    if not inside and not person and not written.path.startswith(("/", "~")):
        # A project that came from somewhere could hold such a link.
        raise NotShown("it leads out of the project by a link")
    try:
        refuse_private(found, home=ground.home, private=ground.private)
    except WorkspaceRefused as error:
        raise NotShown(f"{found} is shown to no plugin: {error.why}") from error
    if not inside:
        _refuse_hidden(found, ground.home)
    if writable:
        _refuse_acted_on(found)
    return found


def _absolute(text: str, ground: Ground) -> Path:
    if "\0" in text:
        raise NotShown("it holds a zero byte")
    if text == "~" or text.startswith("~/"):
        if ground.home is None:
            raise NotShown("there is no home directory here")
        return ground.home / text[1:].lstrip("/")
    if text.startswith("~"):
        raise NotShown("write out whose home directory it is")
    return ground.project / text


def _why_missing(written: Written, named: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        relative = written.sqlite and not written.path.startswith(("/", "~"))
        more = "; a SQLite URL has four slashes before an absolute path" if relative else ""
        return f"there is no file or directory {named}{more}"
    why = error.strerror if isinstance(error, OSError) else "it leads in a circle"
    return f"{named} cannot be looked at: {(why or 'unknown reason').lower()}"


def _refuse_hidden(found: Path, home: Path | None) -> None:
    """Refuse `~/.anything`: in a home directory that is where programs keep keys, and what they run when they start."""
    if home is None or not _is_in(found, home.resolve()):
        return
    first = found.relative_to(home.resolve()).parts[0]
    if first.startswith("."):
        raise NotShown(f"{first} in your home directory is where programs keep their settings and keys")


def _refuse_acted_on(found: Path) -> None:
    """Refuse to have changed what tells programs of the host what to run."""
    if is_protected_name(str(found)):
        raise NotShown(f"programs of this machine act on what is in {found}; it can be read, not written")
    if held := sorted(name for name in PROTECTED_NAMES if (found / name).exists()):
        raise NotShown(f"{found} holds {held[0]}, on which programs of this machine act; name a directory below it")


def _is_in(path: Path, root: Path) -> bool:
    return path == root or root in path.parents
