from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagura_kernel.journal.precedents import Precedent


class Past:
    """Runs that are over, one an hour."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, task: str = "deploy the shop", status: str = "done", **facts: Any) -> Precedent:
        self._number += 1
        known = {"project": "/p", "brain": "fake", "model": "m-1", "seconds": 60.0, "usd": 0.4, "verified": None}
        known["counted_usd"] = facts.get("usd", known["usd"])
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=self._number)
        return Precedent(f"run-{self._number}", task, status=status, started_at=at, **known | facts)


@pytest.fixture
def past() -> Past:
    return Past()
