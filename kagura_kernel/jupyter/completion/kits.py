"""Names of agents, and of files in the kits that are staged for them; nothing is fetched and nothing is staged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kagura_kernel.cockpit.lines.completing import Name
from kagura_kernel.domain.grammar import Kind
from kagura_kernel.jupyter.completion.names import files

_DOCUMENTS = (".yaml", ".yml", ".toml", "/")


def agents(prefix: str) -> list[Name]:
    """Agents that have a name, then files that may hold one."""
    from kagura_kernel.assembly.kits import make_kits

    named = [] if "/" in prefix else [Name(name) for name in make_kits(os.environ).agents()]
    found = files(Path.cwd(), prefix, Kind.FILE, outside=True)
    return [*named, *(one for one in found if one.text.endswith(_DOCUMENTS))]


def staged(given: Sequence[str]) -> list[Name]:
    """Files of the kit that the line is about.

    Args:
        given: The words on the line; behind `kit show` the agent, if one is named.

    Raises:
        KaguraError: there is no such agent, or the project cannot be used.
    """
    from kagura_kernel.assembly.kits import make_kits

    words = list(given[2:])
    if len(words) > 1:
        return []
    kit = make_kits(os.environ).latest(words[0] if words else None)
    if kit is None:
        return []
    return [Name(one.target, _about(one.redactions)) for one in kit.files() if one.target.isprintable()]


def _about(redactions: int) -> str:
    return f"{redactions:,} redaction{'' if redactions == 1 else 's'}" if redactions else ""
