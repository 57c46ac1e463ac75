"""Reads memories and edges from the cloud, several at once where there are several."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.memory import Edge
from kagura_kernel.memory.cloud.edges import edge_of
from kagura_kernel.memory.cloud.rows import CloudMemoryRow, cloud_id, memory_of_row, our_id
from kagura_kernel.memory.cloud.wire import CloudWire

_AT_ONCE = 8
_PAGE = 100
_OUR_ID = re.compile(r"mem-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_T = TypeVar("_T")


class CloudReading:
    """Whole memories, and the edges between them, as often as they are asked for."""

    def __init__(self, wire: CloudWire) -> None:
        self._wire = wire

    def row(self, memory_id: str) -> CloudMemoryRow:
        """One memory.

        Raises:
            MemoryUnknown: there is none of this id.
        """
        if not _OUR_ID.fullmatch(memory_id):
            raise MemoryUnknown(memory_id)
        told = self._wire.call("reference", memory_id=cloud_id(memory_id)).get("memory")
        if not isinstance(told, dict):
            raise MemoryUnknown(memory_id)
        return memory_of_row(told)

    def rows(self, ids: Sequence[str]) -> list[CloudMemoryRow]:
        """Those of these memories that are there, in this order."""
        found = _each(self._row_or_none, ids)
        return [row for row in found if row is not None]

    def edges(self, known: Mapping[str, CloudMemoryRow]) -> list[Edge]:
        """Every edge that begins or ends at one of these memories, each once."""
        told = [edge for edges in _each(self._told, list(known)) for edge in edges]
        sources = {our_id(edge.get("source_id")) for edge in told} - set(known)
        rows = {**known, **{row.memory.id: row for row in self.rows(sorted(sources))}}
        found: dict[tuple[str, str], Edge] = {}
        for one in told:
            source = rows.get(our_id(one.get("source_id")))
            edge = edge_of(one, source.marks if source else ())
            found[edge.source, edge.target] = edge
        return sorted(found.values(), key=lambda edge: (edge.source, edge.target))

    def all_ids(self) -> list[str]:
        """Every memory of the context, the oldest first."""
        ids: dict[str, None] = {}
        offset, more = 0, True
        while more:
            told, more = self.page(offset)
            ids.update(dict.fromkeys(told))
            offset += _PAGE
        return list(reversed(ids))

    def page(self, offset: int) -> tuple[list[str], bool]:
        """Some ids, the newest first, and whether there are more."""
        told = self._wire.get("/api/v1/memory/list", context_id=self._wire.context_id, offset=offset, limit=_PAGE)
        memories = told.get("memories") or ()
        return [our_id(one.get("id")) for one in memories], bool(told.get("has_more") and memories)

    def _row_or_none(self, memory_id: str) -> CloudMemoryRow | None:
        try:
            return self.row(memory_id)
        except MemoryUnknown:
            return None

    def _told(self, memory_id: str) -> Sequence[Mapping[str, Any]]:
        try:
            return list(self._wire.call("list_edges", memory_id=cloud_id(memory_id)).get("edges") or ())
        except MemoryUnknown:
            return []


def _each(read: Callable[[str], _T], ids: Sequence[str]) -> list[_T]:
    if len(ids) < 2:  # noqa: PLR2004 - one needs no threads
        return [read(one) for one in ids]
    with ThreadPoolExecutor(min(_AT_ONCE, len(ids)), "kagura-memory-cloud") as pool:
        return list(pool.map(read, ids))
