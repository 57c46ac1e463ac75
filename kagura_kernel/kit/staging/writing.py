"""Writes below our own folder of kits: whole files, never through a link, on the disk before they count."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kagura_kernel.domain.errors import KitUnwritable

_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)

PATIENCE = 60.0
"""Seconds for which another process may hold a folder of kits before it counts as stuck."""
_PAUSE = 0.005


class Hold:
    """Something that is locked until it is let go, or until this process ends."""

    def __init__(self, handle: int) -> None:
        self._end = weakref.finalize(self, os.close, handle)

    @property
    def locked(self) -> bool:
        """Whether it was not let go yet."""
        return self._end.alive

    def let_go(self) -> None:
        """Unlock; may be called twice."""
        self._end()


def hold_directory(path: Path) -> Hold | None:
    """A directory for oneself; None when somebody else has it. Raises OSError."""
    return _hold(os.open(path, _DIRECTORY), fcntl.LOCK_EX)


def hold_file(path: Path, *, alone: bool) -> Hold | None:
    """A file, made if need be, for oneself or with others; None when it cannot be had now. Raises OSError."""
    return _hold(os.open(path, _FILE, 0o600), fcntl.LOCK_EX if alone else fcntl.LOCK_SH)


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until nobody else has the file, and have it for as long as the block lasts.

    Raises:
        OSError: it cannot be had; ETIMEDOUT when somebody does not let go of it.
    """
    give_up = time.monotonic() + PATIENCE
    while (held := hold_file(path, alone=True)) is None:
        if time.monotonic() > give_up:
            raise TimeoutError(errno.ETIMEDOUT, "another process does not let go of it")
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        held.let_go()


def _hold(handle: int, how: int) -> Hold | None:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno in _TAKEN:
            return None
        raise
    return Hold(handle)


LONG_AGO = 315_532_800_000_000_000
"""The time of every staged file, 1980 in nanoseconds: equal kits are equal, and every archive can hold it."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYNCING = 16
_THERE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def told_as_unwritable(place: Path) -> Iterator[None]:
    """What goes wrong while writing, told of the place as a whole.

    Raises:
        KitUnwritable: something could not be written.
    """
    try:
        yield
    except OSError as error:
        raise KitUnwritable(str(place), (error.strerror or "unknown reason").lower()) from error


def write_file(path: Path, data: bytes, *, executable: bool = False) -> None:
    """A new file with all of the data, not yet on the disk for certain; raises OSError."""
    handle = os.open(path, _NEW, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fchmod(handle, 0o755 if executable else 0o644)
        os.utime(handle, ns=(LONG_AGO, LONG_AGO))
    finally:
        os.close(handle)


def make_directory(path: Path) -> None:
    """A directory that everybody in a box may enter; those above it up to a staged one as well. Raises OSError."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(mode=0o755)
        path.chmod(0o755)


def settle_tree(root: Path) -> None:
    """Put everything below and at `root` on the disk, and give every directory its fixed time; raises OSError.

    That is done when all is written, and by several threads, since most file systems then write it at once and not
    file by file.
    """
    from concurrent.futures import ThreadPoolExecutor

    walked = list(os.walk(root, topdown=False))
    with ThreadPoolExecutor(_SYNCING) as pool:
        for _ in pool.map(sync, (Path(folder, name) for folder, _, names in walked for name in names)):
            pass
        for _ in pool.map(lambda folder: sync(Path(folder), time=LONG_AGO), (folder for folder, _, _ in walked)):
            pass


def sync(path: Path, *, time: int | None = None) -> None:
    """Put a file, or the names in a directory, on the disk, and give it a time; raises OSError."""
    handle = os.open(path, _THERE)
    try:
        if time is not None:
            os.utime(handle, ns=(time, time))
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in another's place, never half of it; raises OSError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        write_file(temporary, data)
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def replace_link(path: Path, target: str) -> None:
    """Let a link lead somewhere else from one moment to the next; raises OSError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.symlink_to(target)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def remove_tree(path: Path) -> None:
    """Take a directory of ours away as far as it can be; what stays is tried again by the next build."""
    shutil.rmtree(path, ignore_errors=True)
