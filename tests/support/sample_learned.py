"""A run's plan, memories and children told as events, for tests of whatever stores or shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kagura_kernel.domain.events import (
    ChildEnded,
    ChildStarted,
    MemoriesSeen,
    MemoriesShown,
    MemoryWritten,
    RunCheckpointed,
    RunPlanned,
    RunResumed,
    RunVerified,
    TrustChanged,
)
from kagura_kernel.domain.memory import SeenMemory, ShownMemory
from kagura_kernel.domain.patterns import Estimate

ESTIMATE = Estimate(
    runs=5,
    usd=0.42,
    usd_low=0.3,
    usd_high=0.61,
    seconds=184.0,
    seconds_low=120.0,
    seconds_high=300.0,
    retries=1.0,
    failed=1,
)
SEEN = (
    SeenMemory("mem-1", "decision", "trusted", "human"),
    SeenMemory("mem-2", "outcome", "trusted", "engine", 0.81),
    SeenMemory("mem-3", "note", "quarantine", "agent", 0.55),
)
LINES = (
    ShownMemory("mem-1", "decision", "trusted", "human", "Deploys go to staging first"),
    ShownMemory("mem-2", "outcome", "trusted", "engine", "Deployed v0.16.0; the smoke test passed", 0.81, ("deploy",)),
    ShownMemory("mem-3", "note", "quarantine", "agent", "The Caddyfile belongs to root", 0.55, ("deploy", "meaning")),
    ShownMemory("mem-4", "lesson", "trusted", "engine", "cp Caddyfile fails when it belongs to root: check first"),
)


@dataclass(frozen=True, slots=True)
class SampleLearned:
    """The facts of one run; each method gives a fresh event, with what the test wants to be different."""

    run_id: str = "run-1"
    session_id: str = "ses-1"
    at: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)  # The time of all its events

    @property
    def _base(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "session_id": self.session_id, "at": self.at}

    def planned(self, **changes: Any) -> RunPlanned:
        """What it was expected to need."""
        facts = {"estimate": ESTIMATE, "similar": ("run-a", "run-b"), "lessons": ("mem-4",), "budget_usd": 0.8}
        return RunPlanned(**self._base | facts | changes)

    def seen(self, **changes: Any) -> MemoriesSeen:
        """What its brain was shown."""
        return MemoriesSeen(**self._base | {"how": "recalled", "memories": SEEN, "untrusted": True} | changes)

    def shown(self, **changes: Any) -> MemoriesShown:
        """The same with what they say."""
        return MemoriesShown(**self._base | {"how": "recalled", "memories": LINES} | changes)

    def written(self, **changes: Any) -> MemoryWritten:
        """What it left."""
        facts = {"memory_id": "mem-9", "type": "outcome", "tier": "quarantine", "author": "engine", "how": "outcome"}
        return MemoryWritten(**self._base | facts | changes)

    def verified(self, **changes: Any) -> RunVerified:
        """Its work was tried out."""
        facts = {"command": "pytest -q", "passed": True, "exit_code": 0, "text": "3 passed", "duration": 1.5}
        return RunVerified(**self._base | facts | {"box_id": "box-2"} | changes)

    def checkpointed(self, **changes: Any) -> RunCheckpointed:
        """Where it stands was stored."""
        return RunCheckpointed(**self._base | {"step": 4, "pending": 2, "usd": 0.1} | changes)

    def resumed(self, **changes: Any) -> RunResumed:
        """It goes on from another one."""
        facts = {"resumes": "run-0", "step": 4, "restored_files": 3, "doubtful": ("bash",)}
        return RunResumed(**self._base | facts | changes)

    def trusted(self, **changes: Any) -> TrustChanged:
        """Trust was earned."""
        return TrustChanged(**self._base | {"category": "packages", "change": "proposed"} | changes)

    def child(self, **changes: Any) -> ChildStarted:
        """A part of its work was handed on."""
        return ChildStarted(**self._base | {"child": "run-2", "memory_id": "mem-8", "budget_usd": 0.2} | changes)

    def child_ended(self, **changes: Any) -> ChildEnded:
        """That part is over."""
        facts = {"child": "run-2", "status": "done", "memories": ("mem-10",), "usd": 0.05}
        return ChildEnded(**self._base | facts | changes)
