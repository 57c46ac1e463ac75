"""The way down from a base directory: one open descriptor after the other, and no link is ever followed.

A path is never handed to the system as a whole. Each component is opened below the descriptor of the one before it with
`O_NOFOLLOW`, so that a directory which is swapped for a link while it is being walked is refused, and one that was
entered before the swap stays the directory that it was. What is opened at the end is looked at through its own
descriptor, never again by its name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .arguments import encoded, shown
from .faults import (
    AccessDenied,
    AlreadyExists,
    ConfigRefused,
    NotFound,
    PathRefused,
    PluginFault,
    StorageFailed,
    TooLarge,
)

MAX_PATH = 4096
"""Bytes of a whole path."""

HERE = "."
"""The base directory itself, where a directory is asked for."""

_DELETE = 0x7F
_ENTER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# O_NONBLOCK: a FIFO that takes a file's place between the look and the opening must not hold the plugin for ever.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK

_FAULTS: dict[int, tuple[type[PluginFault], str]] = {
    errno.ENOENT: (NotFound, "does not exist"),
    errno.ENOTDIR: (PathRefused, "leads through a link or something else that is no directory"),
    errno.ELOOP: (PathRefused, "leads through a link, which is never followed"),
    errno.EISDIR: (PathRefused, "is a directory"),
    errno.ENXIO: (PathRefused, "is no plain file"),
    errno.ENODEV: (PathRefused, "is no plain file"),
    errno.ENAMETOOLONG: (PathRefused, "has a component that is too long"),
    errno.EEXIST: (AlreadyExists, "exists already"),
    errno.EACCES: (AccessDenied, "may not be accessed by this plugin"),
    errno.EPERM: (AccessDenied, "may not be accessed by this plugin"),
    errno.EROFS: (AccessDenied, "is on a file system that is read-only here"),
    errno.ETXTBSY: (AccessDenied, "is a program that is running"),
    errno.ENOSPC: (StorageFailed, "cannot be written: the disk is full"),
    errno.EDQUOT: (StorageFailed, "cannot be written: the disk quota is used up"),
    errno.EFBIG: (TooLarge, "would become too large for its file system"),
}


def components(path: Any) -> tuple[str, ...]:
    """The parts of a relative path, each a plain name.

    Raises `PathRefused`: it is no text, empty, absolute, longer than 4096 bytes, or a part of it is empty, begins with
    a dot (`.`, `..` and hidden files) or holds NUL or another control character.
    """
    if not isinstance(path, str):
        raise PathRefused(f"A path must be a text, not {type(path).__name__}.")
    if not path:
        raise PathRefused("The path is empty.")
    if len(path) > MAX_PATH or len(encoded("The path", path, PathRefused)) > MAX_PATH:
        raise PathRefused(f"The path is longer than {MAX_PATH:,} bytes.")
    if any(ord(sign) < ord(" ") or ord(sign) == _DELETE for sign in path):
        raise PathRefused(f"{shown(path)} holds NUL or another control character.")
    if path.startswith("/"):
        # Not repeated: it may be a guess at the base.
        raise PathRefused("The path is absolute; paths are relative to the base directory.")
    parts = tuple(path.split("/"))
    for part in parts:
        if not part:
            raise PathRefused(f"{shown(path)} has an empty component.")
        if part == "..":
            raise PathRefused(f"{shown(path)} leads upwards.")
        if part.startswith("."):
            raise PathRefused(f"{shown(path)} is or leads through a hidden file, which are out of bounds.")
    return parts


class Base:
    """One directory, opened once and held: whatever its path leads to later, this stays the directory that it was.

    No error ever shows its place, an absolute path as it was configured. Raises `ConfigRefused`: it is no directory
    that can be opened, a link, or the root of the system.
    """

    def __init__(self, place: str) -> None:
        if not place.startswith("/") or "\0" in place or not place.strip("/"):
            raise ConfigRefused("The base directory must be an absolute path, and not the root of the system.")
        try:
            self._descriptor = os.open(place, _ENTER)
        except OSError as error:
            why = (error.strerror or "it failed").lower()
            raise ConfigRefused(f"The base directory cannot be opened: {why}.") from None

    def close(self) -> None:
        """Give the directory back; nothing can be reached afterwards. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory that a path ends in, as a descriptor for the block, and the last component.

        Raises:
            PathRefused: the path is none, or leads through a link or a file.
            NotFound: a directory on the way does not exist.
            AccessDenied: a directory on the way cannot be entered.
        """
        parts = components(path)
        with self._entered(parts[:-1], path) as descriptor:
            yield descriptor, parts[-1]

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """A directory as a descriptor for the block; `.` is the base itself. Raises as `parent`."""
        parts = () if path == HERE else components(path)
        with self._entered(parts, path) as descriptor:
            yield descriptor

    @contextmanager
    def _entered(self, parts: tuple[str, ...], path: str) -> Iterator[int]:
        with translated(path):
            descriptor = os.dup(self._descriptor)
        try:
            for part in parts:
                with translated(path):
                    below = os.open(part, _ENTER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)


def open_file(directory: int, name: str, access: int, path: str) -> tuple[int, os.stat_result]:
    """A plain file below a directory's descriptor, open, and what it is.

    It is looked at before it is opened, because opening a FIFO or a device is felt on its other side, and again through
    its descriptor, because something else may have taken its place. The access is never one that creates. Errors show
    the path as the caller wrote it.

    Raises:
        PathRefused: it is a link, a directory, a FIFO, a socket, a device, or has more than one name (a hard link).
        NotFound: it does not exist.
        AccessDenied: it may not be opened like this.
    """
    with translated(path):
        check_plain(os.stat(name, dir_fd=directory, follow_symlinks=False), path)
        descriptor = os.open(name, access | _FILE, dir_fd=directory)
    try:
        found = os.fstat(descriptor)
        check_plain(found, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, found


def check_plain(found: os.stat_result, path: str) -> None:
    """Refuse whatever is no plain file with one name. Raises `PathRefused`: with what it is."""
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(f"{shown(path)} is a link, which is never followed.")
    if stat.S_ISDIR(found.st_mode):
        raise PathRefused(f"{shown(path)} is a directory.")
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(f"{shown(path)} is no plain file.")
    if found.st_nlink != 1:
        # One of its names may lie outside the base.
        raise PathRefused(f"{shown(path)} has more than one name (a hard link) and is out of bounds.")


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Errors of the system in this block as faults, without the path that the system knows."""
    try:
        yield
    except OSError as error:
        fault, what = _FAULTS.get(error.errno or 0, (StorageFailed, "cannot be used: the system refused it"))
        # The original holds nothing but the component and a number, and is cut off all the same.
        raise fault(f"{shown(path)} {what}.") from None
