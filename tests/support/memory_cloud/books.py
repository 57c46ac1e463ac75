"""What the fake of Kagura Memory Cloud keeps: the memories and the edges of one context, and its answers to tools.

Ids are UUIDs of its own, a deleted memory is gone for every tool, one edge joins two memories in one direction, and
trust is what the server thinks of where a memory came from, told to nobody and asked for by a filter.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kagura_kernel.memory.words import index_terms, query_terms

EDGE_TYPES = (
    "neural_association",
    "related_to",
    "depends_on",
    "learned_from",
    "continues_from",
    "references_file",
    "supersedes",
    "contradicts",
)
SHORTEST_SUMMARY, LONGEST_SUMMARY = 10, 500
MOST_FOUND = 100
MOST_BYTES = 1 << 20
_MOST_WEIGHT = 3.0


class Refused(Exception):
    """A tool says no; becomes `{"status": "error", …}`."""

    def __init__(self, code: str, message: str, **more: object) -> None:
        super().__init__(message)
        self.code = code
        self.more = more


@dataclass(slots=True)
class CloudRow:
    """One memory."""

    id: str  # A UUID
    summary: str  # As its writer said
    content: str
    type: str
    importance: float
    tags: list[str]
    details: dict[str, Any]
    source_uri: str | None
    source_type: str | None
    delivery_mode: str  # `always` is pinned
    created_at: datetime  # When it was written
    updated_at: datetime | None = None  # When it was changed; None for never
    external: bool = False  # Whether a connector wrote it, so that the server does not trust it
    feedback: list[bool] = field(default_factory=list)  # What was said of it, in order


@dataclass(slots=True)
class CloudEdge:
    """How one memory is joined to another."""

    edge_type: str
    weight: float
    confidence: float


class Books:
    """The rows of one context, and what each tool does to them.

    Args:
        context_id: The only context there is.
        now: Its own time.
    """

    def __init__(self, context_id: str, now: Callable[[], datetime]) -> None:
        self.context_id = context_id
        self.rows: dict[str, CloudRow] = {}
        self.edges: dict[tuple[str, str], CloudEdge] = {}
        self.state: dict[str, Any] = {}
        self._now = now

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool answers.

        Raises:
            Refused: it says no.
            KeyError: there is no such tool.
        """
        answer = {
            "remember": self._remember,
            "recall": self._recall,
            "reference": self._reference,
            "forget": self._forget,
            "update_memory": self._update,
            "load_pinned": self._load_pinned,
            "feedback": self._feedback,
            "explore": self._explore,
            "list_edges": self._list_edges,
            "create_edge": self._create_edge,
            "update_edge": self._update_edge,
            "delete_edge": self._delete_edge,
            "get_context_info": self._context_info,
            "list_tags": self._list_tags,
            "set_state": self._set_state,
            "get_state": self._get_state,
        }[tool]
        if arguments.get("context_id") != self.context_id:
            raise Refused("context_not_found", "Context not found or you don't have access to it.")
        return {"status": "success", **answer(arguments)}

    def listed(self, offset: int, limit: int) -> dict[str, Any]:
        """A page of `GET /api/v1/memory/list`, the newest first."""
        rows = sorted(self.rows.values(), key=lambda row: row.created_at)[::-1]
        page = [
            {
                "id": row.id,
                "summary": row.summary,
                "type": row.type,
                "scope": "persistent",
                "importance": row.importance,
                "created_at": _stamp(row.created_at),
                "updated_at": _stamp(row.updated_at or row.created_at),
                "location": None,
            }
            for row in rows[offset : offset + limit]
        ]
        return {"memories": page, "total": len(rows), "has_more": offset + limit < len(rows)}

    def _remember(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        _check_texts(asked, needed=True)
        row = CloudRow(
            id=str(uuid.uuid4()),
            summary=asked["summary"],
            content=asked["content"],
            type=str(asked.get("type", "note")),
            importance=_number(asked, "importance", 0.5, 1.0),
            tags=list(asked.get("tags") or ()),
            details=dict(asked.get("details") or {}),
            source_uri=asked.get("source_uri"),
            source_type=asked.get("source_type"),
            delivery_mode=str(asked.get("delivery_mode", "on_recall")),
            created_at=self._now(),
        )
        self.rows[row.id] = row
        return {"memory_id": row.id, "scope": "persistent", **self._context()}

    def _recall(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if not str(asked.get("query", "")).strip():
            raise Refused("missing_fields", "Missing required field: query")
        most = int(asked.get("k", 5))
        if not 1 <= most <= MOST_FOUND:
            raise Refused("validation_error", f"k must be between 1 and {MOST_FOUND}")
        rows = [row for row in self.rows.values() if _passes(row, asked.get("filters") or {})]
        scored = [(score, row) for row in rows if (score := _score(row, str(asked["query"]))) > 0]
        scored.sort(key=lambda one: -one[0])
        found = [{**_row(row), "score": round(score / (1 + score), 6)} for score, row in scored[:most]]
        return {"results": found, "count": len(found), "related_tags": [], **self._context()}

    def _reference(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        row = self._found(asked)
        more: dict[str, Any] = {
            "content": row.content,
            "details": row.details,
            "context": None,
            "client": None,
            "source_uri": row.source_uri,
            "source_type": row.source_type,
            "outgoing_links": [],
            "incoming_links": [],
        }
        return {"memory": {**_row(row), **more}}

    def _forget(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        gone = self.rows.pop(str(asked.get("memory_id")), None)
        if gone is not None:
            self.edges = {ends: edge for ends, edge in self.edges.items() if gone.id not in ends}
        ids = [gone.id] if gone else []
        return {"deleted_count": len(ids), "memory_ids": ids, **self._context()}

    def _update(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        row = self._found(asked)
        _check_texts(asked, needed=False)
        for name in ("summary", "content", "type", "delivery_mode"):
            if asked.get(name) is not None:
                setattr(row, name, str(asked[name]))
        row.importance = _number(asked, "importance", row.importance, 1.0)
        row.tags = list(asked["tags"]) if asked.get("tags") is not None else row.tags
        row.details = dict(asked["details"]) if asked.get("details") is not None else row.details
        row.updated_at = self._now()
        return {"memory_id": row.id, "operation": "updated", "re_embedded": False, "scope": "persistent"}

    def _load_pinned(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        cap = max(1, min(int(asked.get("cap", 100)), 1000))
        pinned = [row for row in self.rows.values() if row.delivery_mode == "always"]
        rows = [{**_row(row), "delivery_mode": row.delivery_mode} for row in pinned[:cap]]
        told = {"memories": rows, "truncated": len(pinned) > cap, "total_available": len(pinned), "cap": cap}
        return {**told, **self._context()}

    def _feedback(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        row = self._found(asked)
        row.feedback.append(bool(asked["helpful"]))
        return {"memory_id": row.id, "recorded": True}

    def _explore(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        seed = self._found(asked)
        hops = {seed.id: 0}
        level = [seed.id]
        for hop in range(1, int(asked.get("depth", 2)) + 1):
            near = [two if one in level else one for one, two in self.edges if {one, two} & set(level)]
            level = [one for one in dict.fromkeys(near) if one not in hops]
            hops |= dict.fromkeys(level, hop)
        related = [
            {"memory_id": one, "summary": self.rows[one].summary, "activation": 1 / (1 + hop), "hop": hop, "path": []}
            for one, hop in hops.items()
            if hop
        ]
        told = {"memory_id": seed.id, "summary": seed.summary, "type": seed.type}
        return {"exploration": {"seed_memory": told, "related_memories": related, "metadata": {}}}

    def _list_edges(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        row = self._found(asked)
        edges = [self._edge(*ends) for ends in self.edges if row.id in ends]
        return {"memory_id": row.id, "edges": edges, "count": len(edges)}

    def _create_edge(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        ends = self._ends(asked)
        there = self.edges.get(ends)
        edge = CloudEdge(
            _edge_type(asked, "related_to"),
            _number(asked, "weight", 1.0, _MOST_WEIGHT),
            _number(asked, "confidence", 1.0, 1.0),
        )
        if there is not None and there != edge and not asked.get("overwrite"):
            raise Refused("edge_exists", "A declared edge already exists with different values. Use update_edge.")
        self.edges[ends] = edge
        return {"edge": self._edge(*ends), "operation": "updated" if there else "created"}

    def _update_edge(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        ends = self._ends(asked)
        edge = self.edges.get(ends)
        if edge is None:
            raise Refused("edge_not_found", "Edge not found.")
        edge.edge_type = _edge_type(asked, edge.edge_type)
        edge.weight = _number(asked, "weight", edge.weight, _MOST_WEIGHT)
        return {"edge": self._edge(*ends)}

    def _delete_edge(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self.edges.pop(self._ends(asked), None) is None:
            raise Refused("edge_not_found", "Edge not found.")
        return {}

    def _context_info(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        stats = {"total_memories": len(self.rows), "working_memories": 0, "persistent_memories": len(self.rows)}
        return {"context": {"id": self.context_id, "name": "kagura", "is_private": True}, "stats": stats}

    def _list_tags(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        tags = sorted({tag for row in self.rows.values() for tag in row.tags})
        told = [{"tag": tag, "count": sum(tag in row.tags for row in self.rows.values())} for tag in tags]
        return {"tags": told, "total": len(told), **self._context()}

    def _set_state(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self.state[str(asked["key"])] = asked.get("value")
        return {"key": asked["key"], **self._context()}

    def _get_state(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if asked.get("key") is None:
            return {"entries": [{"key": key, "value": value} for key, value in self.state.items()]}
        return {"key": asked["key"], "value": self.state.get(str(asked["key"]))}

    def _context(self) -> dict[str, Any]:
        return {"context_id": self.context_id, "context_name": "kagura", "context_display_name": "kagura"}

    def _found(self, asked: Mapping[str, Any]) -> CloudRow:
        try:
            wanted = str(uuid.UUID(str(asked.get("memory_id"))))
        except ValueError:
            raise Refused("invalid_memory_id_format", "memory_id must be a UUID.") from None
        if wanted not in self.rows:
            raise Refused("memory_not_found", f"Memory not found or you don't have access: {wanted}")
        return self.rows[wanted]

    def _ends(self, asked: Mapping[str, Any]) -> tuple[str, str]:
        source, target = (self._found({"memory_id": asked.get(name)}).id for name in ("source_id", "target_id"))
        if source == target:
            raise Refused("self_loop_not_allowed", "source_id and target_id must be different.")
        return source, target

    def _edge(self, source: str, target: str) -> dict[str, Any]:
        edge = self.edges[source, target]
        told = {"edge_type": edge.edge_type, "weight": edge.weight, "confidence": edge.confidence}
        return {"source_id": source, "target_id": target, **told, "created_at": None, "last_updated": None}


def _row(row: CloudRow) -> dict[str, Any]:
    return {
        "memory_id": row.id,
        "summary": row.summary,
        "context_summary": None,
        "type": row.type,
        "importance": row.importance,
        "scope": "persistent",
        "tags": list(row.tags),
        "created_at": _stamp(row.created_at),
        "updated_at": _stamp(row.updated_at) if row.updated_at else None,
    }


def _passes(row: CloudRow, filters: Mapping[str, Any]) -> bool:
    tags = filters.get("tags") or []
    wanted = all if filters.get("tags_match") == "all" else any
    bounds = (
        ("created_after", row.created_at, True),
        ("created_before", row.created_at, False),
        ("updated_after", row.updated_at or row.created_at, True),
        ("updated_before", row.updated_at or row.created_at, False),
    )
    return (
        (not filters.get("type") or row.type == filters["type"])
        and (not tags or wanted(tag in row.tags for tag in tags))
        and (filters.get("trust_tier") != "trusted" or not row.external)
        and row.importance >= float(filters.get("min_importance") or 0)
        and filters.get("source_type") in {None, row.source_type}
        and all(
            (moment >= _moment(filters[name])) is after or moment == _moment(filters[name])
            for name, moment, after in bounds
            if filters.get(name)
        )
    )


def _score(row: CloudRow, question: str) -> float:
    words = set(index_terms(f"{row.summary} {row.content} {' '.join(row.tags)}"))
    score = sum(term.weight for term in query_terms(question) if words & set(term.forms))
    said = sum(1 if helpful else -1 for helpful in row.feedback)
    return score and score + 0.01 * row.importance + 0.05 * max(-5, min(said, 5))


def _check_texts(asked: Mapping[str, Any], *, needed: bool) -> None:
    if needed and not (asked.get("summary") and asked.get("content")):
        raise Refused("missing_fields", "Missing required fields: summary, content")
    summary, content = asked.get("summary"), asked.get("content")
    if summary is not None and not SHORTEST_SUMMARY <= len(summary) <= LONGEST_SUMMARY:
        raise Refused("validation_error", f"summary must be {SHORTEST_SUMMARY}-{LONGEST_SUMMARY} characters")
    if content is not None and len(content.encode()) > MOST_BYTES:
        raise Refused("quota_exceeded", "The memory is larger than 1 MB.")


def _number(asked: Mapping[str, Any], name: str, default: float, most: float) -> float:
    value = default if asked.get(name) is None else asked[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise Refused("validation_error", f"{name} must be between 0 and {most:g}.")
    return float(value)


def _edge_type(asked: Mapping[str, Any], default: str) -> str:
    kind = str(asked.get("edge_type") or default)
    if kind not in EDGE_TYPES:
        raise Refused("invalid_edge_type", f"edge_type must be one of: {', '.join(sorted(EDGE_TYPES))}")
    return kind


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
