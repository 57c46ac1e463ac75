"""A directory of the host as one archive, for boxes that share nothing with it: read with care, equal when it is equal.

The directory is walked with descriptors and no link is followed, so that nothing outside it is read even while
somebody changes it. Owners are left behind, and modes are reduced to whether a file can be run: in the box everybody
may read what is there, and nobody may write it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import posixpath
import stat
import tarfile
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from kagura_kernel.domain.errors import PathNotShown
from kagura_kernel.sandbox.populate import DEEPEST, DIRECTORY, REGULAR

LARGEST = 512 * 2**20
"""Bytes of content that one directory may have."""
MOST = 100_000
"""Files, directories and links that it may have."""

_RUN_BITS = 0o111

State = tuple[tuple[str | int, ...], ...]
"""Each entry's name, mode, device, number, size and times: what tells contents apart without reading them."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A directory that was read.

    Attributes:
        digest: SHA-256, in hexadecimal, over names, kinds, contents and what can be run.
        state: What `state_of` tells of exactly what was read.
        left_out: What is neither a file, a directory nor a link that stays inside; relative to the directory.
    """

    digest: str
    state: State
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One name, in a directory that is open for as long as the walk stands at it."""

    path: str
    name: str
    folder: int
    found: os.stat_result

    @property
    def state(self) -> tuple[str | int, ...]:
        found = self.found
        times = found.st_mtime_ns, found.st_ctime_ns
        return (self.path, found.st_mode, found.st_dev, found.st_ino, found.st_size, *times)


def state_of(root: Path) -> State:
    """What is there now.

    Raises:
        PathNotShown: it is missing, no directory, behind a link, unreadable, or too much.
    """
    with closing(_walk(root)) as entries:
        return tuple(entry.state for entry in entries)


def pack(root: Path, archive: IO[bytes]) -> Packed:
    """Write the directory into `archive`, as a tar file whose first name, `.`, is the directory itself.

    Raises:
        PathNotShown: as for `state_of`, or it changed while it was read.
    """
    digest = hashlib.sha256()
    state: list[tuple[str | int, ...]] = []
    left_out: list[str] = []
    with (
        tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar,
        closing(_walk(root)) as entries,
    ):
        for entry in entries:
            state.append(entry.state)
            head = _head(entry)
            if head is None:
                left_out.append(entry.path)
                continue
            words = [head.name, head.type.decode("ascii"), head.mode, head.size, head.linkname]
            digest.update(json.dumps(words).encode("ascii"))
            try:
                _add(tar, head, entry, digest)
            except OSError as error:
                raise PathNotShown(str(root), f"{entry.path} cannot be read ({_why(error)})") from error
    return Packed(digest.hexdigest(), tuple(state), tuple(left_out))


def _walk(root: Path) -> Generator[_Entry, None, None]:
    """Every entry from the directory itself on, in an order that only names decide."""
    if os.path.realpath(root) != str(root):
        raise PathNotShown(str(root), "it, or a folder above it, is a link")
    count = size = 0
    try:
        folder = os.open(root, DIRECTORY)
    except NotADirectoryError as error:
        raise PathNotShown(str(root), "it is not a directory") from error
    except OSError as error:
        raise PathNotShown(str(root), _why(error)) from error
    try:
        yield _Entry(".", ".", folder, os.fstat(folder))
        for entry in _below(folder, "", 0):
            count += 1
            size += entry.found.st_size if stat.S_ISREG(entry.found.st_mode) else 0
            if count > MOST or size > LARGEST:
                most = f"more than {MOST} files" if count > MOST else f"larger than {LARGEST // 2**20} MiB"
                raise PathNotShown(str(root), f"it is {most}, which is more than is sent to a container")
            yield entry
    except OSError as error:
        raise PathNotShown(str(root), f"something in it cannot be read ({_why(error)})") from error
    finally:
        os.close(folder)


def _below(folder: int, above: str, depth: int) -> Iterator[_Entry]:
    with os.scandir(folder) as found:
        names = sorted(entry.name for entry in found)
    for name in names:
        entry = _Entry(f"{above}{name}", name, folder, os.stat(name, dir_fd=folder, follow_symlinks=False))
        yield entry
        if stat.S_ISDIR(entry.found.st_mode):
            if depth >= DEEPEST:
                raise OSError(errno.ELOOP, f"it is deeper than {DEEPEST} folders")
            inner = os.open(name, DIRECTORY, dir_fd=folder)
            try:
                yield from _below(inner, f"{entry.path}/", depth + 1)
            finally:
                os.close(inner)


def _head(entry: _Entry) -> tarfile.TarInfo | None:
    """What stands before its content in the archive; None when it is nothing that belongs there."""
    head = tarfile.TarInfo(entry.path)
    head.mtime = int(entry.found.st_mtime)
    mode = entry.found.st_mode
    if stat.S_ISDIR(mode):
        head.type, head.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISREG(mode):
        head.mode = 0o755 if mode & _RUN_BITS else 0o644
        head.size = entry.found.st_size
    elif stat.S_ISLNK(mode):
        head.type, head.mode = tarfile.SYMTYPE, 0o777
        head.linkname = os.readlink(entry.name, dir_fd=entry.folder)
        if not _stays_inside(entry.path, head.linkname):
            return None
    else:
        return None
    return head


def _stays_inside(path: str, target: str) -> bool:
    """Whether a link leads to a place below the directory, by its words alone."""
    there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return not posixpath.isabs(target) and there != ".." and not there.startswith("../")


def _add(tar: tarfile.TarFile, head: tarfile.TarInfo, entry: _Entry, digest: hashlib._Hash) -> None:
    if not head.isreg():
        tar.addfile(head)
        return
    with open(os.open(entry.name, REGULAR, dir_fd=entry.folder), "rb") as file:  # noqa: PTH123 - a descriptor
        _check_unchanged(entry, file)
        tar.addfile(head, _Hashed(file, digest))
        _check_unchanged(entry, file)


def _check_unchanged(entry: _Entry, file: IO[bytes]) -> None:
    if replace(entry, found=os.fstat(file.fileno())).state != entry.state:
        raise OSError(errno.EBUSY, "it changes at this moment")


class _Hashed:
    """A file that is hashed as it is read."""

    def __init__(self, file: IO[bytes], digest: hashlib._Hash) -> None:
        self._file = file
        self._digest = digest

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        return data


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
