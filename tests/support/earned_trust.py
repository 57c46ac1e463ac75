"""What journals hold when a category of deeds has earned trust, or has lost it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kagura_kernel.domain.events import TrustChanged
from kagura_kernel.domain.events.memory import TrustChange
from kagura_kernel.journal.store import Journal

AGO = (9.0, 7.0, 5.0, 3.0, 1.0)
"""How many days ago each of five successes was."""


def trust_row(change: TrustChange, at: datetime, *, category: str = "git", **more: Any) -> TrustChanged:
    """One row; of a run, unless more is said."""
    facts = {"run_id": f"run-{at:%d-%H}", "session_id": "ses-1", "task": f"{at:%d-%H}"} | more
    return TrustChanged(at=at, category=category, change=change, **facts)


def earn_trust(
    journal: Journal, *, category: str = "git", successes: int = len(AGO), names: tuple[str, ...] = ()
) -> None:
    """Good runs of different tasks, the first nine days ago by the journal's clock; `names` is where they went."""
    now = journal.clock.now()
    for days in AGO[:successes]:
        row = trust_row("succeeded", now - timedelta(days=days), category=category, signal="exit-code", names=names)
        journal.append(row)
