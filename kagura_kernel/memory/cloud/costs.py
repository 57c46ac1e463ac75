"""Tells the cloud what runs cost, as events of a resource, so that its tables and searches know it too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

from kagura_kernel.memory.cloud.access import CloudAccess
from kagura_kernel.memory.cloud.wire import TIMEOUT, CloudWire

_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one run, or one part of it, cost."""

    id: str  # By which it is told once however often it is pushed, such as the run's id
    facts: Mapping[str, Any]  # JSON values: amounts in US dollars, tokens, the model, the price list's version


@dataclass(frozen=True, slots=True)
class CostResource:
    """Where they are pushed."""

    resource_id: str  # The resource's name in the workspace
    key: str = field(repr=False)  # The resource's own key, which may do nothing else; not shown


class CloudCosts:
    """Pushes cost rows; one that is there already is replaced by itself."""

    def __init__(self, access: CloudAccess, resource: CostResource, *, timeout: float = TIMEOUT) -> None:
        self._wire = CloudWire(access, timeout=timeout)
        self._resource = resource

    def push(self, rows: Iterable[CostRow]) -> int:
        """Push rows, a hundred at a time; how many the cloud took.

        Raises:
            MemoryUnavailable: the cloud cannot be reached or refuses; rows before may have been taken.
        """
        path = f"/api/v1/resources/{quote(self._resource.resource_id, safe='')}/events/batch"
        waiting = iter(rows)
        taken = 0
        while some := list(islice(waiting, _AT_ONCE)):
            events = [
                {"op": "upsert", "doc_id": row.id, "payload": dict(row.facts), "idempotency_key": row.id}
                for row in some
            ]
            told = self._wire.push(path, {"events": events}, {"x-resource-api-key": self._resource.key})
            taken += int(told.get("created_count") or 0)
        return taken

    def close(self) -> None:
        """Close every connection; may be called twice."""
        self._wire.close()
