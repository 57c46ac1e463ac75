"""Which directory of the host a box may see: the project root, resolved once, and never one of these."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kagura_kernel.domain.errors import WorkspaceRefused, WorkspaceUnreadable

# A box that saw one of these as its project would see the system, not a project.
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/run")
# Where daemons keep what they were told in confidence, or what is executed for them.
_STATE = ("/var/lib/containerd", "/var/lib/docker", "/var/lib/dpkg", "/var/lib/kubelet", "/var/spool/cron")
# Parts of a home directory that are keys and the settings of programs which hold keys, never a project.
_OF_HOME = (
    *(".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".mozilla", ".thunderbird"),
    *(".aws", ".azure", ".config/gcloud", ".config/gh", ".config/containers", ".docker", ".kube"),
    *(".claude", ".codex", ".ipython", ".jupyter", ".kagura", ".local/share/jupyter"),
)
_TOPS = ("/", "/home", "/root", "/srv", "/tmp", "/var", "/opt", "/mnt", "/media", "/Users")  # noqa: S108 - refused


def check_project(path: Path, *, home: Path | None, private: Sequence[Path]) -> Path:
    """The project root, absolute and without links, fit to be shown to a box.

    Args:
        path: What was asked for; usually the notebook's working directory.
        home: The user's home directory: neither it, nor a directory above it, nor what in it holds keys is ever a
            project.
        private: Directories of ours and of Jupyter's (state, runtime); a project may neither hold nor lie in one.

    Raises:
        WorkspaceUnreadable: it is missing, is no directory, or may not be read.
        WorkspaceRefused: it is a link, or a place that is never shown.
    """
    if path.is_symlink():
        raise WorkspaceRefused(str(path), f"it is a link to {path.readlink()}; name that directory itself")
    try:
        root = path.resolve(strict=True)
        with os.scandir(root) as entries:
            next(entries, None)
    except FileNotFoundError as error:
        raise WorkspaceUnreadable(str(path), "there is no such directory") from error
    except NotADirectoryError as error:
        raise WorkspaceUnreadable(str(path), "it is not a directory") from error
    except OSError as error:
        raise WorkspaceUnreadable(str(path), error.strerror or "it cannot be read") from error
    refuse_private(root, home=home, private=private)
    return root


def refuse_private(root: Path, *, home: Path | None, private: Sequence[Path]) -> None:
    """Refuse what is never shown to a box: the system's own, home as a whole, keys, and directories of ours.

    Args:
        root: A file or directory, absolute and without links.
        home: As for `check_project`.
        private: As for `check_project`.

    Raises:
        WorkspaceRefused: it is, holds, or lies in such a place.
    """
    _refuse_system(root)
    if home is not None:
        _refuse_home(root, home.resolve())
    for directory in private:
        resolved = directory.resolve()
        if _covers(root, resolved) or _covers(resolved, root):
            raise WorkspaceRefused(str(root), f"the private directory {directory} lies in it, or it in that")


def _refuse_system(root: Path) -> None:
    if str(root) in _TOPS:
        raise WorkspaceRefused(str(root), "it is the top of a tree that holds more than a project")
    for system in (*_SYSTEM, *_STATE):
        if _covers(Path(system), root):
            raise WorkspaceRefused(str(root), "it belongs to the system")


def _refuse_home(root: Path, home: Path) -> None:
    if _covers(root, home):
        raise WorkspaceRefused(str(root), "it is, or holds, your home directory")
    for part in _OF_HOME:
        if _covers((home / part).resolve(), root):
            raise WorkspaceRefused(str(root), f"{part} in your home directory holds keys or settings")


def _covers(outer: Path, inner: Path) -> bool:
    return inner == outer or outer in inner.parents
