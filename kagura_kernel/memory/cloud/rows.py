"""A memory as the cloud keeps it: what it has no field for stands in the details, under `kagura`.

Two tags are ours alone. A trusted memory carries `kagura-trusted`, so that the cloud's own filter finds it among any
number of others; what lacks the tag, whoever wrote it, counts as quarantined. A forgotten one carries
`kagura-forgotten` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kagura_kernel.domain.errors.memory import MemoryInvalid
from kagura_kernel.domain.memory import MOST_SUMMARY, Author, Draft, Memory, Source, Tier

TRUSTED, FORGOTTEN = "kagura-trusted", "kagura-forgotten"
OURS = "kagura-"
"""How tags begin that a draft may not have."""

_SHORTEST = 10


@dataclass(frozen=True, slots=True)
class CloudMemoryRow:
    """A memory, and what is beside it in the cloud.

    Attributes:
        memory: As everybody else sees it.
        marks: Tags that tell the type of an edge; see `edges`.
    """

    memory: Memory
    marks: tuple[str, ...]


def problems_of(draft: Draft) -> list[str]:
    """Why the cloud cannot keep a draft that is fine by itself."""
    problems = []
    if draft.id:
        problems.append(f"the id {draft.id!r} cannot be kept, because the cloud gives ids itself; leave it out")
    problems += [
        f"the tag {tag!r} is the engine's own; call it otherwise" for tag in draft.tags if tag.startswith(OURS)
    ]
    return problems


def check_draft(draft: Draft) -> None:
    """Return when the cloud can keep it.

    Raises:
        MemoryInvalid: it cannot.
    """
    if problems := problems_of(draft):
        raise MemoryInvalid("The memory", problems)


def cloud_id(memory_id: str) -> str:
    """The cloud's id for ours."""
    return memory_id.removeprefix("mem-")


def our_id(cloud: object) -> str:
    """Our id for the cloud's."""
    return f"mem-{cloud}"


def asked_to_keep(memory: Memory) -> dict[str, Any]:
    """The arguments of `remember`."""
    arguments = {
        "summary": _summary(memory),
        "content": memory.text,
        "type": memory.type,
        "importance": memory.importance,
        **changed(CloudMemoryRow(memory, ())),
    }
    if memory.source.uri:
        arguments["source_uri"] = memory.source.uri
    return arguments


def changed(row: CloudMemoryRow) -> dict[str, Any]:
    """The arguments of `update_memory` that hold everything that may change."""
    memory = row.memory
    state = FORGOTTEN if memory.forgotten_at else TRUSTED if memory.tier is Tier.TRUSTED else ""
    return {
        "tags": [*memory.tags, *row.marks, *([state] if state else [])],
        "details": {"kagura": _details(memory)},
        "delivery_mode": "always" if memory.pinned else "on_recall",
    }


def memory_of_row(row: Mapping[str, Any]) -> CloudMemoryRow:
    """What `reference` told; a memory that somebody else wrote has what can be known of it."""
    details = row.get("details")
    told = details.get("kagura") if isinstance(details, dict) else None
    ours = told if isinstance(told, dict) else {}
    tags = [str(tag) for tag in row.get("tags") or ()]
    created = _moment(row.get("created_at")) or datetime.fromtimestamp(0, UTC)
    forgotten = _moment(ours.get("forgotten_at"))
    trusted = ours.get("tier") == Tier.TRUSTED.value and (TRUSTED in tags or forgotten is not None)
    memory = Memory(
        id=our_id(row.get("memory_id")),
        text=str(row.get("content") or ""),
        source=_source(ours, row),
        tier=Tier.TRUSTED if trusted else Tier.QUARANTINE,
        type=str(row.get("type") or "note"),
        summary=str(ours.get("summary") or row.get("summary") or ""),
        tags=tuple(tag for tag in tags if not tag.startswith(OURS)),
        importance=float(row.get("importance") or 0.0),
        scope=str(ours.get("scope") or ""),
        thread=str(ours.get("thread") or ""),
        speaker=str(ours.get("speaker") or ""),
        at=_moment(ours.get("at")) or created,
        created_at=created,
        expires_at=_moment(ours.get("expires_at")),
        pinned=ours.get("pinned") is True or row.get("delivery_mode") == "always",
        data=dict(ours["data"]) if isinstance(ours.get("data"), dict) else {},
        promoted_by=str(ours.get("promoted_by") or "") if trusted else "",
        forgotten_at=forgotten,
    )
    marks = tuple(tag for tag in tags if tag.startswith(OURS) and tag not in {TRUSTED, FORGOTTEN})
    return CloudMemoryRow(memory, marks)


def _source(ours: Mapping[str, Any], row: Mapping[str, Any]) -> Source:
    author = ours.get("author")
    known = Author(author) if author in set(Author) else Author.IMPORT
    uri = ours.get("uri") or row.get("source_uri") or ""
    return Source(known, str(ours.get("by") or ""), str(ours.get("run_id") or ""), str(uri))


def _details(memory: Memory) -> dict[str, Any]:
    return {
        "version": 1,
        "author": memory.source.author.value,
        "by": memory.source.by,
        "run_id": memory.source.run_id,
        "uri": memory.source.uri,
        "tier": memory.tier.value,
        "summary": memory.summary,
        "scope": memory.scope,
        "thread": memory.thread,
        "speaker": memory.speaker,
        "at": memory.at.isoformat(),
        "expires_at": memory.expires_at and memory.expires_at.isoformat(),
        "pinned": memory.pinned,
        "data": dict(memory.data),
        "promoted_by": memory.promoted_by,
        "forgotten_at": memory.forgotten_at and memory.forgotten_at.isoformat(),
    }


def _summary(memory: Memory) -> str:
    """The cloud wants ten characters at least."""
    if len(memory.summary) >= _SHORTEST:
        return memory.summary[:MOST_SUMMARY]
    return f"{memory.type} memory: {memory.summary}"


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
