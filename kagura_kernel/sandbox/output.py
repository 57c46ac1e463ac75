"""What a command prints, kept within bounds: the head and the tail in memory, everything in a file when it is long."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from weakref import WeakValueDictionary

from kagura_kernel.domain.commands import ByteFilter, Command, Output, OutputChunk, OutputListener, Stream

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


def leaves_free(file: int, size: int, free: int) -> bool:
    """Whether the disk of an open file still has `free` bytes for its user after `size` more were written."""
    found = os.fstatvfs(file)
    return found.f_bavail * found.f_frsize - size >= free


def prune_spilled(root: Path, going_on: Callable[[], Collection[str]], older_than_days: float = 30.0) -> int:
    """Remove outputs that are older, and the empty directories of runs that are over; how many files went.

    What cannot be removed stays; links are removed, never followed. Nobody else may enter afterwards.

    Args:
        root: Where the directories of all runs are.
        going_on: Tells the runs that may still write into theirs.
        older_than_days: How old outputs become.
    """
    with contextlib.suppress(OSError):
        if not root.is_symlink():
            root.chmod(0o700)
    before = time.time() - older_than_days * _DAY
    gone = 0
    # Looked at before it is asked: a run is recorded before it has a directory.
    directories = _directories(root)
    live = going_on() if directories else ()
    for directory in directories:
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
            if not kept and directory.name not in live:
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


_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


class OutputCapture:
    """One stream of one command.

    Memory stays at about `keep_bytes`, however much is printed. The file is made in `spill_dir` (None makes none; a
    missing one is made too) when more than that has come, is readable by its owner only, holds every byte from the
    first on, and stops to exist (as does `Output.spill`) when all files there would take more than `spill_limit`, or
    leave less than `free_bytes` on the disk: a file that only seems complete is worse than none.
    """

    def __init__(
        self,
        keep_bytes: int,
        spill_dir: Path | None,
        name: str,
        spill_limit: int = SPILL_LIMIT,
        free_bytes: int = FREE_BYTES,
    ) -> None:
        self._head_size = keep_bytes - keep_bytes // 2
        self._tail_size = keep_bytes // 2
        self._spill_dir = spill_dir
        self._spill_limit = spill_limit
        self._free_bytes = free_bytes
        self._budget: SpillBudget | None = None
        self._claimed = 0
        self._name = name
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._fd = -1
        self._path: Path | None = None

    @property
    def total(self) -> int:
        """Bytes printed so far."""
        return self._total

    def add(self, data: memoryview) -> None:
        """More was printed."""
        if self._total + len(data) > self._head_size + self._tail_size:
            self._spill(data)
        self._total += len(data)
        space = self._head_size - len(self._head)
        if space > 0:
            self._head += data[:space]
            data = data[space:]
        if not data or not self._tail_size:
            return
        if len(data) >= self._tail_size:
            self._tail[:] = data[len(data) - self._tail_size :]
            return
        self._tail += data
        # Cut now and then only, so that many small pieces do not move the tail each time.
        if len(self._tail) > self._tail_size * 2:
            del self._tail[: len(self._tail) - self._tail_size]

    def finish(self) -> Output:
        """The result; closes the file and leaves it where it is."""
        self._close()
        tail = bytes(self._tail[-self._tail_size :]) if self._tail_size else b""
        if self._total <= len(self._head) + len(tail):
            return Output(bytes(self._head) + tail, b"", self._total, self._path)
        return Output(bytes(self._head), tail, self._total, self._path)

    def discard(self) -> None:
        """Remove the file, and make none for what still comes; may be called after `finish` and twice."""
        self._spill_dir = None
        self._close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        if self._budget is not None:
            self._budget.give_back(self._claimed)
            self._claimed = 0

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _spill(self, data: memoryview) -> None:
        if self._spill_dir is None:
            return
        try:
            if self._fd < 0:
                self._open(self._spill_dir)
            self._write(data)
        except OSError:
            self.discard()

    def _open(self, folder: Path) -> None:
        # The directory of one run's outputs, and the one above it that holds those of all runs, for us alone.
        for one in (folder.parent, folder):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._budget = budget_of(folder)
        self._fd, path = tempfile.mkstemp(prefix=f"{self._name}-", suffix=".txt", dir=folder)
        self._path = Path(path)
        # Until now everything fitted, so head and tail together are all there was.
        for part in (self._head, self._tail):
            self._write(memoryview(part))

    def _write(self, data: memoryview) -> None:
        if self._budget is None or not self._budget.take(len(data), self._spill_limit):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        self._claimed += len(data)
        if not leaves_free(self._fd, len(data), self._free_bytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = data
        while rest:
            rest = rest[os.write(self._fd, rest) :]


class Printed:
    """Both streams of one command on their way: filtered first, then kept and told to a listener."""

    def __init__(self, command: Command, listener: OutputListener | None) -> None:
        self._listener = listener
        self._captures = {name: OutputCapture(command.keep_bytes, command.spill_dir, name) for name in _STREAMS}
        # Most commands leave one stream empty, or both: a filter is made with the first that is printed.
        self._make = command.output_filter
        self._filters: dict[Stream, ByteFilter] = {}

    def add(self, stream: Stream, data: memoryview) -> None:
        """More was printed. What the listener or the filter raises comes through; then nothing of it was heard."""
        if self._make is not None:
            one = self._filters.get(stream)
            if one is None:
                one = self._filters[stream] = self._make()
            data = memoryview(one.feed(bytes(data)))
        self._pass_on(stream, data)

    async def ready(self) -> None:
        """Return when `end` takes no time, after the last `add`."""
        for one in self._filters.values():
            await one.ready()

    def end(self) -> None:
        """Nothing more comes: what a filter has held back is passed on now. May be called twice."""
        filters, self._filters = self._filters, {}
        for stream, one in filters.items():
            self._pass_on(stream, memoryview(one.finish()))

    def finish(self) -> tuple[Output, Output]:
        """What is kept of stdout and of stderr, after `end`."""
        self.end()
        return self._captures["stdout"].finish(), self._captures["stderr"].finish()

    def discard(self) -> None:
        """Remove the files, and make none for what still comes; may be called twice."""
        for capture in self._captures.values():
            capture.discard()

    def _pass_on(self, stream: Stream, data: memoryview) -> None:
        if not data:
            return
        self._captures[stream].add(data)
        if self._listener is not None:
            self._listener(OutputChunk(stream, bytes(data)))
