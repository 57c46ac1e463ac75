"""What a run was shown of the memory and left in it, and what a person did to memories.

None of these rows holds what is remembered: a memory can be erased, and a journal only grows. Live displays are told
the words by events that are not stored.
"""

from __future__ import annotations

from typing import Literal

from kagura_kernel.domain.events.base import Event, Streamed
from kagura_kernel.domain.memory import SeenMemory, ShownMemory

Shown = Literal["pinned", "recalled", "lesson", "handoff", "state", "asked"]
"""Why a brain is shown a memory: it is pinned, it fits the task, it warns, a parent hands it on, it is what the session
left open, or the brain has asked for it."""

Written = Literal["asked", "outcome", "lesson", "handoff", "result"]
"""Why a memory was made: the brain asked for it, a run ended, something failed, a child gets it, or it is a child's
result."""

MemoryAct = Literal[
    "promoted",
    "demoted",
    "pinned",
    "unpinned",
    "forgotten",
    "restored",
    "erased",
    "imported",
    "helped",
    "misled",
    "written",
]


class MemoriesSeen(Event):
    """Memories are about to be shown to a run's brain.

    Attributes:
        how: Why.
        call_id: The tool call that asked; empty where none did.
        memories: Which, in the order in which they are shown.
        untrusted: Whether one of them is in quarantine: from here on the run is marked.
    """

    kind: Literal["memory.seen"] = "memory.seen"
    how: Shown
    call_id: str = ""
    memories: tuple[SeenMemory, ...] = ()
    untrusted: bool = False


class MemoriesShown(Streamed):
    """The same with the first line of each, for live displays."""

    kind: Literal["memory.shown"] = "memory.shown"
    how: Shown
    call_id: str = ""
    memories: tuple[ShownMemory, ...] = ()


class MemoryWritten(Event):
    """A run left a memory.

    Attributes:
        memory_id: Which.
        type: Its type, as `known_type` says it.
        tier: How far it is trusted.
        author: Who said it.
        how: Why it was made.
        call_id: The tool call that asked; empty where none did.
    """

    kind: Literal["memory.written"] = "memory.written"
    memory_id: str
    type: str
    tier: str
    author: str
    how: Written
    call_id: str = ""


class MemoryChanged(Event):
    """Somebody changed a memory; outside of runs the run's id is empty.

    Attributes:
        memory_id: Which; the first one where there are several.
        change: What was done.
        by: Who.
        via: Where: `command`, `sidebar`, `terminal`, `table`, `verification`.
        memories: How many in all.
        edges: How many edges went with them.
        checkpoints: How many checkpoints went with them.
        runs: Runs whose checkpoints or summaries went.
    """

    kind: Literal["memory.changed"] = "memory.changed"
    memory_id: str
    change: MemoryAct
    by: str = ""
    via: str = ""
    memories: int = 1
    edges: int = 0
    checkpoints: int = 0
    runs: tuple[str, ...] = ()
