"""The project's files on the host, reached component by component so that no link can lead elsewhere.

A path comes from a box and is not to be trusted: it is walked from a descriptor of the project root with
`O_NOFOLLOW` at every step, so that neither a link in the project nor one swapped in meanwhile is followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_PATH = 4096
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafePath(Exception):
    """A path from a box that could leave the project, or that runs through a link; never shown to people."""


@dataclass(frozen=True, slots=True)
class HostState:
    """One path of the project as it is now.

    Attributes:
        kind: `file`, `link`, `other`, or empty when there is nothing.
        sha256: Of the content, or of the link's target; empty when there is nothing.
        size: Bytes.
        mode: Permission bits.
        changed: When content or attributes last changed, seconds since 1970; cannot be set by hand.
        content: The bytes, if they were asked for and are few enough.
    """

    kind: str = ""
    sha256: str = ""
    size: int = 0
    mode: int = 0
    changed: float = 0.0
    content: bytes | None = None


def split_path(path: str) -> list[str]:
    """A relative path's components.

    Raises:
        UnsafePath: it is absolute, empty, too long, or has an empty, `.` or `..` component or a NUL.
    """
    parts = path.split("/")
    if not path or len(path) > MAX_PATH or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise UnsafePath(path)
    return parts


class ProjectFiles:
    """Reads and replaces files below one directory of the host."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def state(self, path: str, *, keep: int = 0) -> HostState:
        """What lies at a path; a link is described, not followed. `keep` bytes at most are kept as content."""
        try:
            with self._parent(path) as (parent, name):
                return _state_at(parent, name, keep)
        except (FileNotFoundError, NotADirectoryError):
            return HostState()

    def replace(self, path: str, content: bytes, mode: int) -> None:
        """Put a file in place, whole or not at all; directories on the way are made."""
        with self._parent(path, create=True) as (parent, name):
            temporary = f".{name[:80]}.{secrets.token_hex(4)}.tmp"
            handle = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent
            )
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fchmod(file.fileno(), mode & 0o777)
                    os.fsync(file.fileno())
                os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    def link(self, path: str, target: str) -> None:
        """Put a link in place; the caller has checked where it points."""
        with self._parent(path, create=True) as (parent, name):
            temporary = f".{name[:80]}.{secrets.token_hex(4)}.tmp"
            os.symlink(target, temporary, dir_fd=parent)
            os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)

    def remove(self, path: str) -> None:
        """Remove a file or link, and the directories above it that it leaves empty."""
        with self._parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)
        parts = split_path(path)[:-1]
        while parts:
            try:
                with self._parent("/".join(parts)) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
            except OSError:
                return
            parts.pop()

    @contextlib.contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        *directories, name = split_path(path)
        handle = os.open(self._root, _DIRECTORY)
        try:
            for directory in directories:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(directory, 0o777, dir_fd=handle)
                deeper = os.open(directory, _DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle = deeper
            yield handle, name
        finally:
            os.close(handle)


def _state_at(parent: int, name: str, keep: int) -> HostState:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    bits = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=parent)
        return HostState("link", link_hash(target), len(target), bits, found.st_ctime, os.fsencode(target))
    if not stat.S_ISREG(found.st_mode):
        return HostState("other", "", 0, bits, found.st_ctime)
    digest = hashlib.sha256()
    kept = bytearray()
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
    with os.fdopen(handle, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            if len(kept) <= keep:
                kept += chunk[: keep + 1 - len(kept)]
    content = bytes(kept) if len(kept) <= keep else None
    return HostState("file", digest.hexdigest(), found.st_size, bits, found.st_ctime, content)


def link_hash(target: str) -> str:
    """The hash that stands for a link: of its target, marked so that no file has the same."""
    return hashlib.sha256(b"link\0" + os.fsencode(target)).hexdigest()
