"""Files of the host below one directory, as a `FileSystem`.

Every path is walked from the root one component at a time, through directory descriptors and without following any
link, so that neither `..` nor a link, not even one put there in the middle of the walk, leads out of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.domain.tools import FileKind, FileStat


def matches(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a path matches a pattern, both in components.

    `*`, `?` and `[…]` stay within one component; `**` stands for any number of them, the last one for at least one.
    """
    # How many names the components so far may stand for; trying each way by itself could take forever.
    counts = {0}
    for number, part in enumerate(parts, 1):
        if part == "**":
            counts = set(range(min(counts) + (number == len(parts)), len(names) + 1))
        else:
            counts = {count + 1 for count in counts if count < len(names) and fnmatchcase(names[count], part)}
        if not counts:
            return False
    return len(names) in counts


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK opening a FIFO would wait for its other end.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ_BYTES = 1 << 20


class HostFiles:
    """The files below one directory, which has to exist. Absolute paths are taken when they lie below it."""

    def __init__(self, root: Path) -> None:
        self.root = str(root.resolve())  # relative paths start from it, and none leaves it

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a regular file; links are not followed (`ELOOP`), other kinds are refused (`EINVAL`)."""
        return await asyncio.to_thread(self._read, path, offset, limit)

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace a file as a whole, atomically; parent directories are made, and an existing mode is kept."""
        await asyncio.to_thread(self._write, path, data, mode)

    async def stat(self, path: str) -> FileStat:
        """One path; a link is described, not followed."""
        return await asyncio.to_thread(self._stat, path)

    async def list_dir(self, path: str) -> list[FileStat]:
        """A directory's entries by name."""
        return await asyncio.to_thread(self._list, path)

    async def glob(self, pattern: str, *, limit: int = 1000) -> list[str]:
        """Paths below the root that match (`**` crosses directories), sorted, at most `limit`."""
        return await asyncio.to_thread(self._glob, pattern, limit)

    def _read(self, path: str, offset: int, limit: int | None) -> bytes:
        with _told(path), self._parent(path) as (parent, name):
            fd = os.open(name, _FILE, dir_fd=parent)
            try:
                _require_regular(os.fstat(fd))
                os.lseek(fd, offset, os.SEEK_SET)
                parts = []
                left = limit
                while left is None or left > 0:
                    part = os.read(fd, _READ_BYTES if left is None else min(left, _READ_BYTES))
                    if not part:
                        break
                    parts.append(part)
                    left = None if left is None else left - len(part)
                return b"".join(parts)
            finally:
                os.close(fd)

    def _write(self, path: str, data: bytes, mode: int | None) -> None:
        with _told(path), self._parent(path, make=True) as (parent, name):
            old = _stat_or_none(name, parent)
            if old is not None:
                _require_regular(old)
            if mode is None:
                mode = stat.S_IMODE(old.st_mode) if old is not None else 0o644
            temporary = f".{name[:100]}.{secrets.token_hex(6)}"
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    os.fchmod(file.fileno(), mode)
                os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    def _stat(self, path: str) -> FileStat:
        with _told(path), self._parent(path) as (parent, name):
            return _described(path, name, parent)

    def _list(self, path: str) -> list[FileStat]:
        with _told(path), self._directory(self._components(path)) as fd:
            prefix = "" if path in ("", ".") else path.rstrip("/") + "/"
            return [_described(prefix + name, name, fd) for name in _names(fd)]

    def _glob(self, pattern: str, limit: int) -> list[str]:
        parts = self._components(pattern)
        with _told(pattern), self._directory([]) as fd:
            return sorted(path for path in _walk(fd, "") if matches(parts, path.split("/")))[:limit]

    def _components(self, path: str) -> list[str]:
        if "\0" in path:
            raise BoxFileError(path.replace("\0", "\\0"), "EINVAL", "a path cannot hold NUL")
        if path.startswith("/"):
            if path != self.root and not path.startswith(self.root.rstrip("/") + "/"):
                raise BoxFileError(path, "EACCES", f"lies outside of {self.root}")
            path = path[len(self.root) :]
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise BoxFileError(path, "EACCES", "must not hold '..'")
        return parts

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The opened directory that holds a path, and the path's last component (`.` for the root)."""
        *above, name = self._components(path) or ["."]
        with self._directory(above, make=make) as fd:
            yield fd, name

    @contextmanager
    def _directory(self, components: list[str], *, make: bool = False) -> Iterator[int]:
        fd = os.open(self.root, _DIRECTORY)
        try:
            for name in components:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=fd)
                inner = os.open(name, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Foreign errors in our words, with the path as it was asked for."""
    try:
        yield
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, "EIO")
        raise BoxFileError(path, reason, error.strerror or "input or output failed") from error


def _require_regular(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "is a link, and links are not followed")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "is no regular file")


def _stat_or_none(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _described(path: str, name: str, parent: int) -> FileStat:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    kind: FileKind = "other"
    target = ""
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "directory"
    elif stat.S_ISLNK(found.st_mode):
        kind = "link"
        target = os.readlink(name, dir_fd=parent)
    return FileStat(path, kind, found.st_size, stat.S_IMODE(found.st_mode), found.st_mtime, target)


def _names(fd: int) -> list[str]:
    return sorted(os.listdir(fd))


def _walk(parent: int, prefix: str) -> Iterator[str]:
    """Every path below an opened directory, relative to the first one; what cannot be entered is passed over."""
    for name in _names(parent):
        yield prefix + name
        try:
            fd = os.open(name, _DIRECTORY, dir_fd=parent)
        except OSError:
            continue
        try:
            yield from _walk(fd, f"{prefix}{name}/")
        finally:
            os.close(fd)
