"""What a program asks the memory of its process, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kagura_kernel.jupyter.memory.memory_frame import MemoryFrame


def recalled(
    text: str,
    k: int,
    *,
    types: str | Iterable[str] | None,
    tags: str | Iterable[str] | None,
    tier: str | None,
    since: str | datetime | timedelta | None,
    scopes: str | Iterable[str] | None,
) -> MemoryFrame:
    """See `kagura_kernel.recall`; raises likewise."""
    from kagura_kernel.assembly import get_cockpit
    from kagura_kernel.cockpit.memory import program_query
    from kagura_kernel.jupyter.memory.tables import memories_table

    now = datetime.now(UTC)
    query = program_query(text, k, types=types, tags=tags, tier=tier, since=since, scopes=scopes, now=now)
    return memories_table(get_cockpit().memory.recall(query), now, searched=bool(text.strip()))
