"""How a process's jails are started: each with the same parts, and its connections written down for its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.enabled import JailOrder, RunningJail

if TYPE_CHECKING:
    from kagura_kernel.membrane.postgres.service import PostgresService
    from kagura_kernel.plugins.jail.parts import JailParts
    from kagura_kernel.sandbox.backend import Box

RecordEgress = Callable[[EgressDecided | EgressClosed], None]
Serve = Callable[["Box", "PostgresService", str, str, RecordEgress], Awaitable[int]]
"""Puts a database into a jail (box, database, plugin, session, where its connections are written down): the port."""


class JailStarter:
    """A `StartJail`.

    Args:
        parts: What every jail is made of; who hears of its connections and of its faults is put in for each.
        journal: Where its connections are written down.
        serve: Puts databases into jails; None where nobody can.
    """

    def __init__(self, parts: JailParts, journal: Journal, serve: Serve | None = None) -> None:
        self._parts = parts
        self._journal = journal
        self._serve = serve

    async def __call__(self, order: JailOrder) -> RunningJail:
        """Start a jail; raises as `StartJail` says."""
        from kagura_kernel.plugins.jail.jail import Jail

        def record(event: EgressDecided | EgressClosed) -> None:
            self._journal.append(event.model_copy(update={"session_id": order.session_id}))

        def failed(_name: str, why: str) -> None:
            order.quarantine(why)

        parts = replace(self._parts, record_egress=record, failed=failed)
        if (serve := self._serve) is not None:

            async def open_service(box: Box, service: PostgresService) -> int:
                return await serve(box, service, order.found.name, order.session_id, record)

            parts = replace(parts, open_service=open_service)
        found = order.found
        return await Jail.start(found.name, found.content, found.manifest, order.plan, parts)
