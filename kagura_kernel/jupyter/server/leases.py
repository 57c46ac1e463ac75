"""Leases that are out, and taking one back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.server import asking
from kagura_kernel.jupyter.server.handler import ActingHandler, ReadingHandler

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


class RevokeHandler(ActingHandler):
    """Taking one lease back."""

    auth_resource = RESOURCE

    def deed(self, name: str, by: str) -> Question:
        """Let nobody use it from here on, and tell its run to give it back."""
        self.body(asking.NO_FIELDS)

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import acting

            return acting.revoke(journal, name, by)

        return act
