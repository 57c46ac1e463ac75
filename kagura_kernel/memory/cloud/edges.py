"""Edges in the cloud: of our types it has one, so the others are `related_to` and a tag on the memory they begin at.

The tag says the type and the last letters of the id that the edge leads to: `kagura-edge-prevents-3f2a9c01d4e7`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kagura_kernel.domain.memory import EDGE_TYPES, RELATED, Edge
from kagura_kernel.memory.cloud.rows import OURS, cloud_id, our_id

CLOUD_TYPE = "related_to"

_LETTERS = 12
_MARK = f"{OURS}edge-"


def mark_of(edge: Edge) -> str:
    """The tag that tells the type of an edge; empty for one that needs none."""
    return "" if edge.type == RELATED else f"{_MARK}{edge.type}-{_end(edge.target)}"


def edge_of(told: Mapping[str, Any], marks: Sequence[str]) -> Edge:
    """An edge that the cloud told, with the marks of the memory that it begins at."""
    target = our_id(told.get("target_id"))
    kind = next((kind for kind in EDGE_TYPES if f"{_MARK}{kind}-{_end(target)}" in marks), RELATED)
    weight = told.get("weight")
    known = float(weight) if isinstance(weight, int | float) else 1.0
    return Edge(our_id(told.get("source_id")), target, kind, min(max(known, 0.0), 1.0))


def without(marks: Sequence[str], target: str) -> tuple[str, ...]:
    """Marks without those of edges that lead to a memory."""
    return tuple(mark for mark in marks if not (mark.startswith(_MARK) and mark.endswith(f"-{_end(target)}")))


def _end(memory_id: str) -> str:
    return cloud_id(memory_id).replace("-", "")[-_LETTERS:]
