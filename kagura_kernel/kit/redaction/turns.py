"""Whose turn it is to compile rules: processes that start together would otherwise all do the same work at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

LOCK = ".compiling"
_LOOK_SECONDS = 0.05


@contextlib.contextmanager
def turn(folder: Path, patience: float) -> Iterator[None]:
    """Let another process finish what it compiles in this folder, so that its rules are found; then it is our turn.

    Args:
        folder: Where compiled rules are kept; it is there.
        patience: Seconds. A slow one is not waited for longer: compiling twice does no harm. Nor does a folder
            without locks.
    """
    descriptor = _opened(folder)
    try:
        end = time.monotonic() + patience
        while descriptor is not None and not _taken(descriptor) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_taken(folder: Path) -> bool:
    """Whether a process compiles there now; makes nothing."""
    if not (folder / LOCK).exists() or (descriptor := _opened(folder)) is None:
        return False
    try:
        return not _taken(descriptor)
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return None


def _taken(descriptor: int) -> bool:
    """Take the lock; False while another process has it. A file system without locks counts as taken by us."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
