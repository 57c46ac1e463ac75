"""What the plugins of one process are made of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.assembly.places import person, private_places, redactor_of
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.egress.gate import SystemResolver
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.sandbox.backend import Box, BoxSpec

if TYPE_CHECKING:
    from kagura_kernel.membrane.postgres.service import PostgresService
    from kagura_kernel.plugins.jail.jail import RecordEgress
    from kagura_kernel.plugins.manager import PluginManager


def make_plugins(
    environ: Mapping[str, str], home: Path, settings: Settings, journal: Journal, clock: Clock, owner: str, boxes: Boxes
) -> PluginManager:
    """What knows the plugins of this process."""
    from kagura_kernel.membrane.postgres.port import PostgresParts, open_service
    from kagura_kernel.plugins.decisions import ApprovalBook, QuarantineBook, TrustBook
    from kagura_kernel.plugins.jail.box import JailLimits, JailParts
    from kagura_kernel.plugins.jail.jail import JailStarter
    from kagura_kernel.plugins.library import ManagerParts
    from kagura_kernel.plugins.manager import PluginManager
    from kagura_kernel.plugins.manifest import plugin_places

    async def start_box(spec: BoxSpec) -> Box:
        return await boxes.start_jail(settings.plugin_box, spec)

    async def serve(box: Box, service: PostgresService, plugin: str, session_id: str, record: RecordEgress) -> int:
        parts = PostgresParts(
            SystemResolver(),
            record,
            plugin,
            session_id=session_id,
            statement_seconds=settings.plugin_call_seconds,
            clock=clock,
        )
        return await open_service(box, service, parts)

    limits = JailLimits(
        call_seconds=settings.plugin_call_seconds, calls=settings.plugin_calls, memory_mib=settings.plugin_memory_mib
    )
    return PluginManager(
        ManagerParts(
            journal=journal,
            clock=clock,
            owner=owner,
            places=partial(plugin_places, home),
            person=person(environ),
            private=private_places(environ, home),
            approvals=ApprovalBook(home / "approved-plugins.json", clock),
            quarantine=QuarantineBook(home / "quarantined-plugins.json", clock),
            trust=TrustBook(home / "trusted-authors.json"),
            start_jail=JailStarter(JailParts(start_box, clock=clock, limits=limits), journal, serve),
            max_risk=settings.plugin_max_risk,
            redact=Redacting(redactor_of(home)).value,
        )
    )
