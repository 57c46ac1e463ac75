"""The memory behind the answers: opened when it is first needed, let go when it cannot be reached.

It has threads of its own: a memory on a slow server keeps nobody waiting who asks for runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from kagura_kernel.domain.errors.memory import MemoryUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.source import JournalSource
    from kagura_kernel.memory.store import MemoryStore

Answer = TypeVar("Answer")

THREADS = 4


class MemorySource:
    """The memory that kernels with this environment have.

    Args:
        journals: Where what is done to memories is written down.
        environ: The server's environment; `KAGURA_HOME` and the settings say where the memory is.
    """

    def __init__(self, journals: JournalSource, environ: Mapping[str, str]) -> None:
        self._journals = journals
        self._environ = dict(environ)
        self._lock = threading.Lock()
        self._store: MemoryStore | None = None
        self._closed = False
        self._threads = ThreadPoolExecutor(THREADS, "kagura-memory")

    @property
    def contents(self) -> Path:
        """The directory of contents, some of which only an erased checkpoint needs."""
        from kagura_kernel.journal.place import data_home

        return data_home(self._environ) / "blobs"

    async def within(self, question: Callable[[Journal], Answer]) -> Answer:
        """Answer a question that needs the memory too, in one of its threads; raises as `JournalSource.read`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._journals.ask, question)

    def ask(self, question: Callable[[MemoryStore], Answer]) -> Answer:
        """Ask the memory, in the thread that one is in.

        Raises:
            MemoryUnavailable: it cannot be reached; the next question tries anew.
            ConfigurationError: the settings that say where it is are wrong.
            KaguraError: what the question itself raises.
        """
        store, fresh = self._opened()
        try:
            return question(store)
        except MemoryUnavailable:
            # Once it is mended, or the settings name another one, the next question finds it.
            self._let_go(store)
            if fresh:
                raise
        # What was open may have been moved away, or its server started again: the one that is there now may answer.
        return question(self._opened()[0])

    def close(self) -> None:
        """Close the memory; threads that are busy end with what they do. May be called twice."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def _let_go(self, store: MemoryStore) -> None:
        with self._lock:
            if store is self._store:
                self._store = None
        store.close()

    def _opened(self) -> tuple[MemoryStore, bool]:
        """The memory, and whether it was opened for this question."""
        with self._lock:
            if self._closed:
                raise MemoryUnavailable("this server", "the server is stopping", "Ask again once it is there.")
            if self._store is not None:
                return self._store, False
            self._store = self._open()
            return self._store, True

    def _open(self) -> MemoryStore:
        # What keeps memories costs time to load, which the start of a server must not.
        from kagura_kernel.journal.place import data_home, read_settings
        from kagura_kernel.memory.opening import open_memory

        settings = read_settings(self._environ)
        # The model that knows meanings would be one more in memory beside each kernel's.
        return open_memory(settings.memory, data_home(self._environ), self._environ, meaning=False)
