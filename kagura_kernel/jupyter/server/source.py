"""The journal and the memory behind the answers: opened when first needed, opened again when they are others.

Nothing here ever runs on the server's loop: reading has threads of its own, writing has others, so that somebody who
holds the journal's write lock keeps no reader waiting.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from kagura_kernel.domain.errors import JournalError, JournalMissing, JournalUnreadable, KaguraError, UsageError
from kagura_kernel.domain.errors.memory import MemoryUnavailable

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.memory.store import MemoryStore

Answer = TypeVar("Answer")

READERS, WRITERS, REMEMBERERS = 4, 2, 4
AGAIN_SECONDS = 0.5
"""How long nobody tries to open a journal again that could not be opened."""


class JournalSource:
    """The journal that kernels with this environment keep.

    Args:
        environ: The server's environment; `KAGURA_HOME`, `KAGURA_JOURNAL_URL` and the settings say where it is.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self._lock = threading.Lock()
        self._journal: Journal | None = None
        self._trouble: tuple[float, KaguraError] | None = None
        self._closed = False
        self._reading = ThreadPoolExecutor(READERS, "kagura-read")
        self._writing = ThreadPoolExecutor(WRITERS, "kagura-write")
        self._watching = ThreadPoolExecutor(1, "kagura-watch")

    async def read(self, question: Callable[[Journal], Answer]) -> Answer:
        """Ask the journal something in a thread for readers.

        Raises:
            JournalError: it cannot be opened or read; the next question tries again.
            ConfigurationError: the settings that say where it is are wrong.
            KaguraError: what the question itself raises.
        """
        return await asyncio.get_running_loop().run_in_executor(self._reading, self.ask, question)

    async def read_nothing(self, question: Callable[[Journal], Answer]) -> Answer:
        """Ask an empty journal, which is what there is to tell before the first run makes one; raises as `read`."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._ask_nothing, question)

    async def write(self, deed: Callable[[Journal], Answer]) -> Answer:
        """Do something to the journal in a thread for writers; raises as `read`."""
        return await asyncio.get_running_loop().run_in_executor(self._writing, self.ask, deed)

    async def watch(self, look: Callable[[Journal], Answer]) -> Answer:
        """Look at the journal in the watcher's one thread; raises as `read`."""
        return await asyncio.get_running_loop().run_in_executor(self._watching, self.ask, look)

    def ask(self, question: Callable[[Journal], Answer]) -> Answer:
        """Ask in the thread that one is in, which is never the loop's; raises as `read`."""
        journal = self._opened()
        try:
            return question(journal)
        except JournalUnreadable:
            if not self._let_go(journal):
                raise
        # It was another one's journal, closed under this question or moved away: the one that is there now may answer.
        return question(self._opened())

    def _ask_nothing(self, question: Callable[[Journal], Answer]) -> Answer:
        from kagura_kernel.journal.store import Journal

        with TemporaryDirectory(prefix="kagura-") as folder, closing(Journal.open(Path(folder))) as journal:
            return question(journal)

    def close(self) -> None:
        """Close the journal; threads that are busy end with what they do. May be called twice."""
        for threads in (self._reading, self._writing, self._watching):
            threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    def _let_go(self, journal: Journal) -> bool:
        """Forget a journal that does not answer; whether another one may lie in its place."""
        with self._lock:
            ours = journal is self._journal
            if ours:
                self._journal = None
        gone = bool(journal.why_gone())
        if ours:
            journal.close()
        return gone or not ours

    def _opened(self) -> Journal:
        with self._lock:
            if self._closed:
                raise JournalUnreadable("of this server", "the server is stopping")
            if self._journal is not None and not self._journal.why_gone():
                return self._journal
            if self._trouble is not None and time.monotonic() < self._trouble[0]:
                raise self._trouble[1].with_traceback(None)
            if self._journal is not None:
                self._journal.close()
                self._journal = None
            try:
                self._journal = self._open()
            except KaguraError as error:
                self._trouble = time.monotonic() + AGAIN_SECONDS, error
                raise
            return self._journal

    def _open(self) -> Journal:
        # The database's library costs a good part of a second, which the start of a server must not.
        from kagura_kernel.journal.place import place_in_use
        from kagura_kernel.journal.store import Journal

        place = place_in_use(self.environ)
        try:
            return Journal.open(place, create=False)
        except JournalError:
            raise
        except UsageError as error:
            raise JournalMissing(error.message) from error


class MemorySource:
    """The memory that kernels with this environment have.

    It has threads of its own: a memory on a slow server keeps nobody waiting who asks for runs.

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
        self._threads = ThreadPoolExecutor(REMEMBERERS, "kagura-memory")

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
        from kagura_kernel.memory.location import open_memory

        settings = read_settings(self._environ)
        # The model that knows meanings would be one more in memory beside each kernel's.
        return open_memory(settings.memory, data_home(self._environ), self._environ, meaning=False)
