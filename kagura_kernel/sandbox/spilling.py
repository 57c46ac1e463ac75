"""How much of the disk spilled outputs may take: one budget for all files of a directory, and room left for others."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from weakref import WeakValueDictionary

SPILL_LIMIT = 2**30
"""Bytes that all files of one directory may take together; a run has one directory."""

FREE_BYTES = 2**30
"""Bytes that are left free on the disk."""

_DAY = 86400.0


class SpillBudget:
    """What the files of one directory take; those that were there before count too.

    Ask for it with `budget_of`: whoever spills to the same directory at the same time shares it, from any thread.
    """

    def __init__(self, directory: Path) -> None:
        self._used = _size_of(directory)
        self._lock = threading.Lock()

    def take(self, size: int, limit: int) -> bool:
        """Claim so many bytes; False, and nothing is claimed, when that is more than `limit` in all."""
        with self._lock:
            if self._used + size > limit:
                return False
            self._used += size
            return True

    def give_back(self, size: int) -> None:
        """Bytes that are on the disk no more."""
        with self._lock:
            self._used -= size


_open_budgets: WeakValueDictionary[str, SpillBudget] = WeakValueDictionary()
_opening = threading.Lock()


def budget_of(directory: Path) -> SpillBudget:
    """The budget of a directory, the same one for as long as somebody holds it."""
    key = os.path.realpath(directory)
    with _opening:
        budget = _open_budgets.get(key)
        if budget is None:
            budget = _open_budgets[key] = SpillBudget(directory)
        return budget


def make_spill_directory(directory: Path) -> None:
    """Make the directory of one run's outputs, and the one above it that holds those of all runs, for us alone.

    Raises:
        OSError: it cannot be made.
    """
    for one in (directory.parent, directory):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)


def leaves_free(file: int, size: int, free: int) -> bool:
    """Whether the disk of an open file still has `free` bytes for its user after `size` more were written."""
    found = os.fstatvfs(file)
    return found.f_bavail * found.f_frsize - size >= free


def prune_spilled(root: Path, older_than_days: float = 30.0) -> int:
    """Remove outputs that are older, and the directories of runs that are empty then; how many files went.

    What cannot be removed stays; links are removed, never followed. Nobody else may enter afterwards.
    """
    with contextlib.suppress(OSError):
        if not root.is_symlink():
            root.chmod(0o700)
    before = time.time() - older_than_days * _DAY
    gone = 0
    for directory in _directories(root):
        kept = False
        for path in _entries(directory):
            try:
                if path.lstat().st_mtime < before:
                    path.unlink()
                    gone += 1
                else:
                    kept = True
            except OSError:
                kept = True
        with contextlib.suppress(OSError):
            if not kept and directory.lstat().st_mtime < before:
                directory.rmdir()
    return gone


def _directories(root: Path) -> list[Path]:
    return [path for path in _entries(root) if path.is_dir() and not path.is_symlink()]


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _size_of(directory: Path) -> int:
    total = 0
    for path in _entries(directory):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total
