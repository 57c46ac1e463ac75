"""The numbers of a status bar, this interface described, and what is said where there is nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from kagura_kernel.jupyter.server.handler import JournalHandler, ReadingHandler, Refusal

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.handler import Question

OPENAPI = Path(__file__).with_name("openapi.yaml")


class StatusHandler(ReadingHandler):
    """How many approvals wait, how many runs go on, what today cost."""

    auth_resource = "kagura_status"

    def question(self, *names: str) -> Question:
        """The numbers."""
        del names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.status(journal)

        return ask


class OpenApiHandler(JournalHandler):
    """The OpenAPI file."""

    auth_resource = "kagura_status"

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The file."""
        self._send()

    @web.authenticated
    @authorized
    async def head(self) -> None:
        """As GET, without the body."""
        self._send()

    def _send(self) -> None:
        self.finish(OPENAPI.read_bytes(), set_content_type="application/yaml")


class NoSuchRoute(JournalHandler):
    """Whatever else is asked for below our base."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Refuse."""
        self._refuse()

    @web.authenticated
    @authorized
    async def head(self) -> None:
        """Refuse."""
        self._refuse()

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> None:
        raise Refusal(404, "ERR_NOT_FOUND", "There is no such route; openapi.yaml lists those that there are.")
