"""Locks of files and directories, which the system lets go of when a process is gone, however it ended."""

from __future__ import annotations

import errno
import fcntl
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
