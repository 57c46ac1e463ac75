"""What an erasure removes: memories, what came from them, their edges, and the checkpoints that name any of them.

The journal keeps that it was done, and never what was erased. What names a memory goes before the memory itself, so
that whoever is interrupted can do it again.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.events.memory import MemoryChanged
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.memory import CAME_FROM, OUTCOME, Memory
from kagura_kernel.domain.outcome import content_name
from kagura_kernel.journal import views
from kagura_kernel.journal.checkpoints import forget_checkpoints, naming, needed
from kagura_kernel.journal.session_registry import memories_named

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.memory.store import MemoryStore


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an erasure would remove, or has removed."""

    ids: tuple[str, ...]  # Of the memories: those that were named first, then what came from them
    memories: tuple[Memory, ...] = ()  # They themselves, as far as they are not forgotten; empty once they are gone
    edges: int = 0  # How many
    checkpoints: int = 0  # How many
    runs: tuple[str, ...] = ()  # Runs whose checkpoints or summaries are among it
    going: tuple[str, ...] = ()  # Runs that go on and know one of them: what they store from now on may hold it again


def would_erase(store: MemoryStore, journal: Journal, memory_ids: Sequence[str], *, cascade: bool) -> Erasure:
    """What an erasure would remove; nothing is changed.

    Args:
        store: The memory.
        journal: Knows the checkpoints, and which runs go on.
        memory_ids: Of the memories that are named.
        cascade: Whether what came from them goes too.

    Raises:
        MemoryUnknown: one of them is not there.
        MemoryUnavailable: the memory cannot be used.
        JournalError: the journal cannot be read.
    """
    memories, edges = _grown(store, _there(store, journal, memory_ids), cascade=cascade)
    checkpoints = naming(journal, tuple(dict.fromkeys([*memory_ids, *memories])))
    return Erasure(
        ids=tuple(memories),
        memories=tuple(memories.values()),
        edges=len(edges),
        checkpoints=len(checkpoints),
        runs=_runs([one.run_id for one in checkpoints], memories.values()),
        going=tuple(_going(journal, set(memories))),
    )


def erase(
    store: MemoryStore,
    journal: Journal,
    memory_ids: Sequence[str],
    *,
    cascade: bool,
    contents: Path,
    by: str,
    via: str,
    session_id: str = "",
) -> Erasure:
    """Remove memories for good, and tell the journal that they are gone.

    Args:
        store: The memory.
        journal: Knows the checkpoints, and which runs go on.
        memory_ids: Of the memories that are named.
        cascade: Whether what came from them goes too.
        contents: The directory of contents of changed files; those that nothing needs afterwards go too.
        by: Who says so.
        via: Where.
        session_id: In which session.

    Raises:
        MemoryUnknown: one of them is not there; nothing is removed then.
        MemoryUnavailable: the memory cannot be used.
        JournalError: the journal cannot be written.
    """
    journal.check_writable()
    named = _there(store, journal, memory_ids)
    memories, _ = _grown(store, named, cascade=cascade)
    count, runs = _erase_checkpoints(journal, tuple(dict.fromkeys([*memory_ids, *memories])), contents)
    gone, edges = _erase_each(store, named, cascade=cascade)
    # Once more: a run may have stored one meanwhile, and of what was forgotten the store alone knew where it came from.
    more, more_runs = _erase_checkpoints(journal, tuple(gone), contents)
    erasure = Erasure(
        ids=tuple(gone),
        edges=edges,
        checkpoints=count + more,
        runs=_runs([*runs, *more_runs], memories.values()),
        going=tuple(_going(journal, set(gone))),
    )
    journal.append(
        MemoryChanged(
            run_id="",
            session_id=session_id,
            at=journal.clock.now(),
            memory_id=memory_ids[0],
            change="erased",
            by=by,
            via=via,
            memories=len(erasure.ids),
            edges=erasure.edges,
            checkpoints=erasure.checkpoints,
            runs=erasure.runs,
        )
    )
    return erasure


def _erase_each(store: MemoryStore, named: Sequence[str], *, cascade: bool) -> tuple[dict[str, None], int]:
    """Erase them from the store: the ids of all that went, in order, and how many edges."""
    gone: dict[str, None] = {}
    edges = 0
    for memory_id in named:
        if memory_id not in gone:
            erased = store.erase(memory_id, cascade=cascade)
            gone.update(dict.fromkeys(erased.memories))
            edges += erased.edges
    return gone, edges


def _there(store: MemoryStore, journal: Journal, memory_ids: Sequence[str]) -> list[str]:
    """Those that are there. One that is erased may still be named, by a run that went on then.

    Raises:
        MemoryUnknown: one of them is not there, and nothing names it.
    """
    there = []
    for memory_id in dict.fromkeys(memory_ids):
        try:
            there.append(store.reference(memory_id).id)
        except MemoryUnknown:
            if not naming(journal, [memory_id]):
                raise
    return there


def _grown(
    store: MemoryStore, memory_ids: Sequence[str], *, cascade: bool
) -> tuple[dict[str, Memory], set[tuple[str, str, str]]]:
    """The memories that are named, with `cascade` what came from them, and every edge of theirs."""
    memories = {memory_id: store.reference(memory_id) for memory_id in memory_ids}
    edges: set[tuple[str, str, str]] = set()
    waiting = list(memories)
    while waiting:
        memory_id = waiting.pop()
        around = store.explore(memory_id, depth=1, most=sys.maxsize)
        near = {one.id: one for one in around.memories}
        for edge in around.edges:
            if memory_id in (edge.source, edge.target):
                edges.add((edge.source, edge.target, edge.type))
            if cascade and edge.type == CAME_FROM and edge.target == memory_id and edge.source not in memories:
                memories[edge.source] = near[edge.source]
                waiting.append(edge.source)
    return memories, edges


def _erase_checkpoints(journal: Journal, memory_ids: Sequence[str], contents: Path) -> tuple[int, tuple[str, ...]]:
    held = {str(change.get("new_sha256") or "") for one in naming(journal, memory_ids) for change in one.changes}
    count, runs = forget_checkpoints(journal, memory_ids)
    if count:
        for sha256 in held - needed(journal, held) - {""}:
            # What cannot be removed now goes with the others that nobody has decided about.
            with suppress(OSError):
                (contents / content_name(sha256)).unlink(missing_ok=True)
        journal.scour()
    return count, runs


def _runs(of_checkpoints: Sequence[str], memories: Collection[Memory]) -> tuple[str, ...]:
    """Runs of these checkpoints, and those whose summaries are among the memories; each once."""
    summed_up = [one.source.run_id for one in memories if one.type == OUTCOME and one.source.run_id]
    return tuple(dict.fromkeys([*of_checkpoints, *summed_up]))


def _going(journal: Journal, memory_ids: set[str]) -> Iterator[str]:
    """Runs that go on and were shown one of these, or have left it."""
    for row in views.unfinished(journal):
        told = journal.events(run_id=row.run_id, kinds=("memory.seen", "memory.written"))
        if any(memory_ids.intersection(memories_named(one.event)) for one in told):
            yield row.run_id
