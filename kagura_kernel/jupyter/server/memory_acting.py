"""What the routes that change memories do: in the memory, and as a row of the journal that says so. In a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from kagura_kernel.domain.events.memory import MemoryChanged
from kagura_kernel.domain.memory import Memory
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server.acting import VIA
from kagura_kernel.jupyter.server.memory_reading import gone_fields, memory_fields
from kagura_kernel.memory import erasing
from kagura_kernel.memory.store import MemoryStore

Act = Literal["promoted", "demoted", "pinned", "unpinned", "forgotten", "restored"]

_ACTS: Mapping[Act, Callable[[MemoryStore, str, str], Memory]] = {
    "promoted": lambda store, memory_id, by: store.promote(memory_id, by=by),
    "demoted": lambda store, memory_id, _: store.demote(memory_id),
    "pinned": lambda store, memory_id, _: store.pin(memory_id),
    "unpinned": lambda store, memory_id, _: store.pin(memory_id, on=False),
    "forgotten": lambda store, memory_id, _: store.forget(memory_id),
    "restored": lambda store, memory_id, _: store.restore(memory_id),
}


def change(journal: Journal, store: MemoryStore, memory_id: str, act: Act, by: str) -> dict[str, Any]:
    """Change one memory; what it is now.

    Raises:
        MemoryUnknown: there is no such memory.
        MemoryUnavailable: it cannot be reached.
        JournalError: it could not be written down; then nothing was changed.
    """
    journal.check_writable()
    changed = _ACTS[act](store, memory_id, by)
    at = journal.clock.now()
    journal.append(MemoryChanged(run_id="", session_id="", at=at, memory_id=memory_id, change=act, by=by, via=VIA))
    return {"memory": memory_fields(changed)}


def erase(
    journal: Journal, store: MemoryStore, contents: Path, memory_id: str, by: str, *, cascade: bool
) -> dict[str, Any]:
    """Remove one memory for good, with `cascade` everything that came from it; what went.

    Raises:
        MemoryUnknown: there is no such memory.
        MemoryUnavailable: it cannot be reached.
        JournalError: it could not be written down.
    """
    gone = erasing.erase(store, journal, [memory_id], cascade=cascade, contents=contents, by=by, via=VIA)
    return {"memories": list(gone.ids)} | gone_fields(gone)
