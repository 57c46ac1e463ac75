"""The one memory of a process, opened when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.settings import Settings

if TYPE_CHECKING:
    from kagura_kernel.memory.store import MemoryStore


class LazyMemory:
    """Opens the memory that the settings name, once, and closes it. From any thread.

    Args:
        environ: Variables.
        settings: The user's.
        home: Our data directory.
        clock: The time.
    """

    def __init__(self, environ: Mapping[str, str], settings: Settings, home: Path, clock: Clock) -> None:
        self._environ = environ
        self._settings = settings
        self._home = home
        self._clock = clock
        self._lock = threading.Lock()
        self._store: MemoryStore | None = None

    def __call__(self) -> MemoryStore:
        """The memory.

        Raises:
            MemoryUnavailable: it cannot be used; the next call tries again.
        """
        from kagura_kernel.memory.opening import open_memory

        with self._lock:
            if self._store is None:
                self._store = open_memory(
                    self._settings.memory,
                    self._home,
                    self._environ,
                    clock=self._clock,
                    meaning=self._settings.memory_meaning,
                )
            return self._store

    def close(self) -> None:
        """Close it if it was opened; may be called twice."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            store.close()
