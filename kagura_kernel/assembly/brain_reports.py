"""Brains as they are configured, for who looks before asking one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.brains import Prices, compatible_brain, make_brains, make_endpoints
from kagura_kernel.brain.openai_compatible import joined_model, split_model
from kagura_kernel.brain.selection import AUTO, choose, usual_model
from kagura_kernel.cockpit.brains import BrainReport, Thinking, report_brains
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.settings import Settings

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal


def brain_reports(
    environ: Mapping[str, str], settings: Settings, home: Path, journal: Journal | None, *, model: str = ""
) -> list[BrainReport]:
    """Every brain with what it would think with and what a turn would cost; no service is asked.

    Args:
        environ: Variables.
        settings: The user's.
        home: Our data directory.
        journal: Where turns were counted; None for nowhere.
        model: The model asked for; empty for what each would take.
    """
    compatible = compatible_brain(environ, settings)
    endpoints = make_endpoints(environ, settings)
    brains = make_brains(environ, settings, home)

    def thinking(name: str) -> Thinking:
        meant = model or usual_model(settings, name, lambda: choose(AUTO, brains)[0].name)
        if name != compatible.name:
            return Thinking("" if split_model(meant, list(endpoints))[0] else meant)
        try:
            endpoint, found = compatible.thinks_with(meant)
        except BrainNotConfigured:
            return Thinking("")
        return Thinking(joined_model(endpoint.name, found), compatible.window(endpoint, found))

    return report_brains(brains, thinking, Prices(settings).price, journal, datetime.now(UTC))
