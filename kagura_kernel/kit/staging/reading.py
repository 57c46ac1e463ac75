"""Reads files of a person's home without being led out of the directory that they belong to.

A path is walked component by component, each opened with `O_NOFOLLOW` relative to the descriptor before it. A link is
read and its components take its place; one that leads above the root is refused, however the tree is changed meanwhile,
since `..` goes back along the descriptors that were walked and never along names. A file is looked at before it is
opened, so that no device and no pipe is, and is read from the one descriptor that was checked.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from kagura_kernel.kit.staging.planned import Stamp

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, so that a pipe that was put in a file's place does not wait for its other end.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_LINKS = 40
_MAX_PARTS = 512

_KINDS = (
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISBLK, "it is a device"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISDIR, "it is a directory"),
)

OUTSIDE = "it is a link that leads out of its directory"
CIRCLE = "it is a link that goes round in a circle"
SWAPPED = "it was put into another's place while it was read"
CHANGED = "it changed while it was read"
HARD_LINK = "it is a hard link: it has another name elsewhere"


class Unfit(Exception):
    """Something that is not read; the text says why, half a sentence without a name or a place."""


def why_unread(error: OSError) -> str:
    """What an error of the system means for a file, half a sentence without a name or a place."""
    return f"it cannot be read: {(error.strerror or 'unknown reason').lower()}"


def stamp_of(found: os.stat_result) -> Stamp:
    """The state of a file in one value."""
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def check_regular(found: os.stat_result, most: int) -> None:
    """Refuse what is no plain file with one name and at most so many bytes.

    Raises:
        Unfit: it is something else.
    """
    if not stat.S_ISREG(found.st_mode):
        raise Unfit(next((words for test, words in _KINDS if test(found.st_mode)), "it is no plain file"))
    if found.st_nlink > 1:
        raise Unfit(HARD_LINK)
    if found.st_size > most:
        raise Unfit(f"it is larger than {size_in_words(most)}")


def size_in_words(size: int) -> str:
    """A limit for a person, in MiB or KiB."""
    return f"{size >> 20:,} MiB" if size >= 1 << 20 else f"{size >> 10:,} KiB"


class Root:
    """A directory that is open, below which files are found; a context manager."""

    def __init__(self, handle: int, place: Path) -> None:
        self.handle = handle  # Its descriptor
        self.place = place  # Where it lies, absolute: an absolute link that leads there is walked from here

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    def below(self, path: str) -> Root:
        """A directory below this one, open.

        Raises:
            Unfit: it is no directory, or lies elsewhere.
            OSError: it cannot be opened; FileNotFoundError if there is none.
        """
        with _walked(self, path) as way:
            if not stat.S_ISDIR(way.found.st_mode):
                raise Unfit("it is no directory")
            return Root(os.dup(way.handle), self.place / path)

    def look(self, path: str) -> os.stat_result:
        """What there is at a path, links followed as far as they stay here. Raises as `below`."""
        with _walked(self, path) as way:
            return way.found

    def read(self, path: str, most: int) -> tuple[bytes, os.stat_result]:
        """All bytes of a plain file, and its state.

        Args:
            path: Relative to this directory.
            most: Bytes that it may have.

        Raises:
            Unfit: it is something else, lies elsewhere, is larger, or changed meanwhile.
            OSError: it cannot be read; FileNotFoundError if there is none.
        """
        with _walked(self, path) as way:
            check_regular(way.found, most)
            handle = _open_leaf(way.name, way.handle)
            try:
                return _read(handle, most)
            finally:
                os.close(handle)

    def head(self, path: str, most: int) -> bytes:
        """The first bytes of a plain file of any size; raises as `read`."""
        with _walked(self, path) as way:
            check_regular(way.found, way.found.st_size)
            handle = _open_leaf(way.name, way.handle)
            try:
                check_regular(os.fstat(handle), 1 << 62)
                return _bytes(handle, most)
            finally:
                os.close(handle)


def open_root(place: Path) -> Root:
    """A directory as the root of what is read; the links on the way to it are the person's own.

    Raises:
        OSError: it is none, or cannot be opened.
    """
    return Root(os.open(place, DIRECTORY & ~os.O_NOFOLLOW), place)


def _open_leaf(name: str, parent: int) -> int:
    try:
        return os.open(name, _FILE, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise Unfit(SWAPPED) from error
        raise


def _read(handle: int, most: int) -> tuple[bytes, os.stat_result]:
    before = os.fstat(handle)
    # What was looked at may not be what was opened.
    check_regular(before, most)
    data = _bytes(handle, most + 1)
    after = os.fstat(handle)
    if len(data) != after.st_size or stamp_of(before) != stamp_of(after):
        raise Unfit(CHANGED)
    return data, after


def _bytes(handle: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := os.read(handle, min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


class _Way:
    """Where a walk has come: a stack of directories, and what is at its end."""

    def __init__(self, root: Root) -> None:
        self._root = root.handle
        self._entered: list[int] = []
        self.name = ""  # The last component in its directory; empty when the walk ended at a directory
        self.found = os.fstat(root.handle)  # What is there

    @property
    def handle(self) -> int:
        """The directory that the walk is in."""
        return self._entered[-1] if self._entered else self._root

    def up(self) -> None:
        if not self._entered:
            raise Unfit(OUTSIDE)
        os.close(self._entered.pop())
        self.found = os.fstat(self.handle)

    def enter(self, name: str, found: os.stat_result) -> None:
        try:
            handle = os.open(name, DIRECTORY, dir_fd=self.handle)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Unfit(SWAPPED) from error
            raise
        self._entered.append(handle)
        self.found = found

    def back_to_root(self) -> None:
        while self._entered:
            os.close(self._entered.pop())


@contextmanager
def _walked(root: Root, path: str) -> Iterator[_Way]:
    way = _Way(root)
    try:
        _walk(way, path, str(root.place))
        yield way
    finally:
        way.back_to_root()


def _walk(way: _Way, path: str, place: str) -> None:
    """Follow a path to its end, which is a directory that was entered, or anything else that is only looked at."""
    parts = deque(path.split("/"))
    links = 0
    while parts:
        part = parts.popleft()
        if part in ("", "."):
            continue
        if way.name:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if part == "..":
            way.up()
            continue
        found = os.stat(part, dir_fd=way.handle, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            parts.extendleft(reversed(_parts_of_link(way, part, place)))
            if links > _MAX_LINKS or len(parts) > _MAX_PARTS:
                raise Unfit(CIRCLE)
        elif stat.S_ISDIR(found.st_mode):
            way.enter(part, found)
        else:
            way.name, way.found = part, found


def _parts_of_link(way: _Way, name: str, place: str) -> list[str]:
    try:
        target = os.readlink(name, dir_fd=way.handle)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unfit(SWAPPED) from error
        raise
    if target.startswith("/"):
        if target != place and not target.startswith(f"{place.rstrip('/')}/"):
            raise Unfit(OUTSIDE)
        way.back_to_root()
        target = target[len(place.rstrip("/")) :]
    return target.split("/")
