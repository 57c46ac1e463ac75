"""Whether the memory of the settings can be used, without making one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Settings


class MemoryState(NamedTuple):
    """How a memory is."""

    ok: bool  # Whether runs can start with it
    said: str  # Where it is and what it holds, or what is wrong with it and what to do


def look_at_memory(settings: Settings) -> MemoryState:
    """Look at the memory that the settings name; a server is asked, and a file that is not there is not made."""
    from kagura_kernel.domain.errors.memory import MemoryStoreError
    from kagura_kernel.journal.place import data_home
    from kagura_kernel.memory.opening import check_folder, check_place, file_of, open_memory
    from kagura_kernel.memory.store import ready

    home = data_home(os.environ)
    file = file_of(settings.memory, home, os.environ)
    try:
        check_place(settings.memory)
        if file is not None and not file.exists():
            check_folder(file, home)
            return MemoryState(ok=True, said=f"none yet at {file}")
        store = open_memory(settings.memory, home, os.environ, meaning=False)
        try:
            ready(store)
            counts = store.counts()
        finally:
            store.close()
    except MemoryStoreError as error:
        return MemoryState(ok=False, said=error.message)
    held = f"{counts.memories:,} remembered, {counts.quarantined:,} of them in quarantine"
    return MemoryState(ok=True, said=f"{store.where}: {held}")
