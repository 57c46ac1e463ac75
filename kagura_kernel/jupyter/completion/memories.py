"""Ids of memories, where they are kept in a file that is there; a server is not asked while somebody types."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from kagura_kernel.cockpit.lines.lookup import Name
from kagura_kernel.cockpit.memory_words import tier_words
from kagura_kernel.domain.memory import Query, Tier

_LATEST = 100
_WANTED = {"promote": Tier.QUARANTINE, "demote": Tier.TRUSTED}


def memories(given: Sequence[str]) -> list[Name]:
    """The newest memories; to be promoted only those that are not trusted, and the other way round.

    Raises:
        KaguraError: the settings are wrong, or the memory cannot be used.
    """
    from kagura_kernel.journal.place import data_home, read_settings
    from kagura_kernel.memory.opening import FILE, open_memory

    where, home = read_settings(os.environ).memory, data_home(os.environ)
    path = Path(where).expanduser() if where else home / FILE
    if not path.is_file():
        return []
    tier = _WANTED.get(given[1]) if len(given) > 1 else None
    with closing(open_memory(str(path), home, os.environ, meaning=False)) as store:
        found = store.recall(Query("", k=_LATEST, tier=tier))
    return [
        Name(one.memory.id, f"{one.memory.type}, {tier_words(one.memory.tier)}: {one.memory.summary}") for one in found
    ]
