"""Leases that are out, and taking one back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.jupyter.server import asking
from kagura_kernel.jupyter.server.handler import JournalHandler, ReadingHandler, as_json, refusal

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.handler import Question

RESOURCE = "kagura_leases"


class LeasesHandler(ReadingHandler):
    """Leases that are out, the oldest first."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """All of them: there are never many."""
        del names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.leases(journal)

        return ask


class RevokeHandler(JournalHandler):
    """Taking one lease back."""

    auth_resource = RESOURCE

    @web.authenticated
    @authorized
    async def post(self, lease_id: str) -> None:
        """Let nobody use it from here on, and tell its run to give it back."""
        by = self.who()

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import acting

            return acting.revoke(journal, lease_id, by)

        try:
            self.body(asking.NO_FIELDS)
            done = await self.source.write(act)
        except KaguraError as error:
            raise refusal(error) from error
        self.answer(as_json(done), 202)
