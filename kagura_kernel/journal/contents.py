"""Contents of changed files that somebody still needs: a checkpoint, or a person who has not decided yet."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import or_, select

from kagura_kernel.domain.events import ChangesCollected, ChangesSettled
from kagura_kernel.journal.checkpoints import named_contents
from kagura_kernel.journal.schema import events
from kagura_kernel.journal.store import Journal

FOLDER = "blobs"
"""Where contents lie in our data directory."""


def needed(journal: Journal, hashes: Collection[str]) -> frozenset[str]:
    """Which of these contents are still needed.

    Raises:
        JournalUnreadable: it cannot be told.
    """
    asked = frozenset(hashes)
    if not asked:
        return asked
    named = or_(*(events.c.body.contains(sha256, autoescape=True) for sha256 in asked))
    query = select(events.c.run_id).where(events.c.kind == "changes.collected", named)
    waiting: set[str] = set()
    for run_id in {row.run_id for row in journal.read(query)}:
        waiting |= _undecided(journal, run_id)
    return asked & (named_contents(journal) | waiting)


def _undecided(journal: Journal, run_id: str) -> set[str]:
    """Contents of a run's changes that were neither applied nor discarded."""
    hashes: dict[str, str] = {}
    for row in journal.events(run_id=run_id, kinds=("changes.collected", "changes.settled")):
        match row.event:
            case ChangesCollected() as event:
                hashes |= {one.path: one.new_sha256 for one in event.changes if one.new_sha256}
            case ChangesSettled() as event:
                for path in (*event.applied, *event.discarded):
                    hashes.pop(path, None)
    return set(hashes.values())
