"""Notebooks that people rename, move and delete through the Jupyter server, told to the journal.

A kernel is told what its notebook is called once, when it starts. The server hears of every other name.
"""

from __future__ import annotations

import os.path
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_server.serverapp import ServerApp

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.jupyter.server.source import JournalSource

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

MOST = 200
"""Moves that wait for a journal: before the first run there is none."""


class NotebookMoves:
    """What was moved and stands in no journal yet."""

    def __init__(self, source: JournalSource, server: ServerApp) -> None:
        self._source = source
        self._server = server
        self._waiting: deque[tuple[str, str, tuple[str, ...]]] = deque()  # As a `Move` has them
        self._lock = threading.Lock()

    async def heard(self, logger: object, schema_id: str, data: dict[str, Any]) -> None:
        """Hear what happened to a file: the server's stream of events calls this."""
        del logger, schema_id
        match data:
            case {"action": "rename", "source_path": str(was), "path": str(now)}:
                await self._moved(was, now)
            case {"action": "delete", "path": str(was)}:
                await self._moved(was, "")

    def record(self, journal: Journal) -> None:
        """Write down what waits; in a thread that may.

        Raises:
            JournalError: the journal cannot be read or written; what is left waits on.
        """
        # Imported here, in a thread: with the database's library, which would hold the server's loop.
        from kagura_kernel.journal.moves import Move, record_move

        with self._lock:
            while self._waiting:
                record_move(journal, Move(*self._waiting[0]))
                self._waiting.popleft()

    async def _moved(self, was: str, now: str) -> None:
        kernels = await self._kernels(was.strip("/")) if now else ()
        if len(self._waiting) < MOST:
            self._waiting.append((self._place(was), now and self._place(now), kernels))
        # The watcher tries again: the journal may be there later.
        with suppress(KaguraError):
            await self._source.write(self.record)

    async def _kernels(self, path: str) -> tuple[str, ...]:
        """The kernels of the notebooks at and below a path; a page tells the server their new names after this."""
        rows = await self._server.session_manager.list_sessions()
        ours = (row for row in rows if f"{row['path'].strip('/')}/".startswith(f"{path}/"))
        return tuple(row["kernel"]["id"] for row in ours if row["kernel"])

    def _place(self, path: str) -> str:
        """What kernels are told: the path on the server's machine."""
        return os.path.join(self._server.root_dir, *path.strip("/").split("/"))  # noqa: PTH118 - as Jupyter puts it
