"""What agents and their kits are found and staged with, and the one redactor of each data directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.places import project_checker, redactor_of
from kagura_kernel.assembly.settings import load_settings
from kagura_kernel.cockpit.agents import ResolveAgent
from kagura_kernel.cockpit.kits import KitDesk, KitServices
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.place import data_home
from kagura_kernel.runs.order import KitParts

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.toolsets import McpToolset


def make_kits(environ: Mapping[str, str], settings: Settings | None = None, *, clock: Clock | None = None) -> KitDesk:
    """What a person can ask about agents and kits; opens nothing and reads no file but the settings.

    Without settings they are read.

    Raises:
        ConfigurationError: the settings are wrong.
    """
    home = data_home(environ)
    return KitDesk(
        KitServices(
            settings=load_settings(environ) if settings is None else settings,
            environ=environ,
            home=home,
            clock=clock or SystemClock(),
            check_project=project_checker(environ, home),
            redactor=lambda: redactor_of(home),
        )
    )


def kit_parts(desk: KitDesk) -> KitParts:
    """What runs stage kits with."""
    return KitParts(desk.folder, desk.kit_places, desk.find_hosts)


def resolve_for(desk: KitDesk) -> ResolveAgent:
    """What leads from a reference to an agent."""
    return lambda reference, _: desk.resolve(reference or None)


def read_mcp_config(home: Path, path: Path) -> Sequence[McpToolset]:
    """The MCP servers that a file names; raises `McpConfigInvalid`."""
    from kagura_kernel.kit.definitions.toolsets import read_mcp_config as read

    return read(path, holds_secret=lambda text: bool(redactor_of(home).redact(text).findings))
