"""The extension's life in the Jupyter server: its routes, its event schema, its watcher, and their end."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_events.logger import EventLogger
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp

from kagura_kernel.jupyter.server.handler import MEMORY, SOURCE
from kagura_kernel.jupyter.server.memory_source import MemorySource
from kagura_kernel.jupyter.server.routes import ROUTES
from kagura_kernel.jupyter.server.source import JournalSource
from kagura_kernel.jupyter.server.watcher import Watcher

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
        self.handlers.extend(ROUTES)
        server, stream = self._server()
        stream.register_event_schema(EVENT_SCHEMA)
        self._watcher = Watcher(self._source, stream, self.log)
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
