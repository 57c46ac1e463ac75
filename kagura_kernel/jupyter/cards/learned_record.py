"""A run's plan and memories for programs, in the notebook file beside its card."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kagura_kernel.jupyter.cards.parts import Check, Part
from kagura_kernel.jupyter.cards.view import RunView


def learned_record(view: RunView) -> dict[str, Any]:
    """What would be the same again: how many memories of which kind, and what the plan rested on; no ids, no times."""
    learned = view.learned
    facts: dict[str, Any] = {}
    steady = view.repeatable
    planned = learned.planned if learned.tells_plan(steady=steady) else None
    if planned is not None and (estimate := planned.estimate) is not None:
        facts["plan"] = {"runs": estimate.runs, "failed": estimate.failed, "lessons": len(planned.lessons)}
    if learned.tells_memories(steady=steady):
        facts["shown"] = dict(Counter(f"{memory.type}, {memory.tier}" for _, memory in learned.seen.values()))
    return facts


def told_record(item: Check | Part) -> dict[str, Any]:
    """How the work was tried out, or what became of a part that was handed on."""
    if isinstance(item, Check):
        return {"kind": "verification", "command": item.event.command, "passed": item.event.passed}
    return {"kind": "child", "status": item.ended.status if item.ended is not None else "running"}


def learned_metadata(view: RunView) -> dict[str, Any]:
    """Ids and figures."""
    learned = view.learned
    facts: dict[str, Any] = {
        "seen": [{"id": memory.id, "how": how, "tier": memory.tier} for how, memory in learned.seen.values()],
        "left": [event.memory_id for event in learned.written],
    }
    if learned.planned is not None and learned.planned.estimate is not None:
        facts["expected_usd"] = learned.planned.estimate.usd
        facts["expected_seconds"] = learned.planned.estimate.seconds
    return {name: value for name, value in facts.items() if value}
