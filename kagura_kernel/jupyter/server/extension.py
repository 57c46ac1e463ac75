"""The extension's life in the Jupyter server: its routes, its event schema, its watcher, and their end.

The watcher tells the server's event stream which lists have changed, whichever process changed them. While somebody
listens, the journal is looked at five times a second; otherwise not at all. However much happens, each topic is told
once a look, and the last change is never lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from logging import Logger, LoggerAdapter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_events.logger import EventLogger
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.manager import ContentsManager

from kagura_kernel.domain.errors import JournalUnwritable, KaguraError
from kagura_kernel.jupyter.server.handler import MEMORY, SOURCE
from kagura_kernel.jupyter.server.notebook_moves import NotebookMoves
from kagura_kernel.jupyter.server.routes import handlers
from kagura_kernel.jupyter.server.source import JournalSource, MemorySource

if TYPE_CHECKING:
    from kagura_kernel.journal.pages import Change, Watch
    from kagura_kernel.journal.store import Journal


SCHEMA_ID = "https://github.com/kagura-ai/kagura-kernel/events/journal/v1"
LOOK_SECONDS = 0.2
NOBODY_SECONDS = 0.5
TROUBLE_SECONDS = 1.0
LOST_SECONDS = 5.0
"""How often, while somebody listens, runs are looked for whose process is gone."""


class Watcher:
    """One task on the server's loop."""

    def __init__(
        self, source: JournalSource, events: EventLogger, log: Logger | LoggerAdapter[Any], moves: NotebookMoves
    ) -> None:
        self._source = source
        self._events = events
        self._log = log
        self._moves = moves
        self._watch: Watch | None = None
        self._told: frozenset[object] = frozenset()
        self._trouble = ""
        self._swept = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; on the server's loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="kagura watcher")

    async def stop(self) -> None:
        """End; may be called before it has begun."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            listeners = self._listeners()
            if listeners - self._told:
                # Whoever comes is told everything once: they cannot know what happened before they heard us.
                self._watch, self._trouble = None, ""
            self._told = listeners
            if not listeners:
                await asyncio.sleep(NOBODY_SECONDS)
                continue
            try:
                changes = await self._source.watch(self._look)
            except KaguraError as error:
                self._tell_trouble(error)
                await asyncio.sleep(TROUBLE_SECONDS)
                continue
            self._trouble = ""
            for change in changes:
                self._emit(change.topic, change.seq, change.run_id, change.approval_id)
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self, journal: Journal) -> list[Change]:
        from kagura_kernel.journal.lost_runs import mark_lost
        from kagura_kernel.journal.pages import Watch

        if self._watch is None or self._watch.journal is not journal:
            self._watch = Watch(journal)
        if time.monotonic() - self._swept > LOST_SECONDS:
            # What a killed kernel was doing and asking must not stand there as if anybody waited for an answer.
            self._swept = time.monotonic()
            # Somebody else may be writing for long; the next look but some tries again.
            with contextlib.suppress(JournalUnwritable):
                mark_lost(journal)
                self._moves.record(journal)
        return self._watch.look()

    def _tell_trouble(self, error: KaguraError) -> None:
        """Say once that the lists cannot be read; who asks for them gets the reason."""
        from kagura_kernel.journal.pages import TOPICS

        self._watch = None
        if error.message == self._trouble:
            return
        self._trouble = error.message
        self._log.info("kagura-kernel shows nothing for now: %s", error.message)
        for topic in TOPICS:
            self._emit(topic, 0, "", "")

    def _emit(self, topic: str, seq: int, run_id: str, approval_id: str) -> None:
        data = {"topic": topic, "seq": seq, "run_id": run_id, "approval_id": approval_id}
        self._events.emit(schema_id=SCHEMA_ID, data=data)

    def _listeners(self) -> frozenset[object]:
        """Who listens to the stream: browsers, and logs that events are written to."""
        found: set[object] = set(self._events.handlers or ())
        for name in ("_modified_listeners", "_unmodified_listeners"):
            # The stream has no word for it in public; one that keeps its listeners elsewhere counts as heard.
            kept = getattr(self._events, name, None)
            found.update({name} if kept is None else kept.get(SCHEMA_ID, ()))
        return frozenset(found)


EVENT_SCHEMA = Path(__file__).with_name("journal_event.yaml")


class KaguraServer(ExtensionApp):
    """Loaded by `jupyter server` through `_jupyter_server_extension_points`."""

    name = "kagura_kernel"
    load_other_extensions = True

    def initialize_settings(self) -> None:
        """Make the sources of all answers, which open the journal and the memory when they are first asked."""
        self._source = JournalSource(os.environ)
        self._memory = MemorySource(self._source, os.environ)
        self.settings[SOURCE], self.settings[MEMORY] = self._source, self._memory

    def initialize_handlers(self) -> None:
        """Add the routes, and begin to watch once the server's loop runs."""
        self.handlers.extend(handlers())
        server, stream = self._server()
        stream.register_event_schema(EVENT_SCHEMA)
        moves = NotebookMoves(self._source, server)
        stream.add_listener(schema_id=ContentsManager.event_schema_id, listener=moves.heard)
        self._watcher = Watcher(self._source, stream, self.log, moves)
        server.io_loop.add_callback(self._watcher.start)

    async def stop_extension(self) -> None:
        """Stop watching, and close the memory and the journal."""
        await self._watcher.stop()
        self._memory.close()
        self._source.close()

    def _server(self) -> tuple[ServerApp, EventLogger]:
        server = self.serverapp
        assert server is not None  # noqa: S101 - an extension is initialised by its server
        assert server.event_logger is not None  # noqa: S101 - which has made its stream of events by then
        return server, server.event_logger
