"""Memories as rows: moments are microseconds since 1970 in UTC, tags and facts are JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from kagura_kernel.domain.memory import Author, Memory, Source, Tier

COLUMNS = (
    "id, text, author, by_name, run_id, uri, tier, type, summary, tags, importance, scope, thread, speaker, at,"
    " created_at, expires_at, pinned, data, promoted_by, helped, misled, forgotten_at"
)
INSERT = f"INSERT INTO memory (n, {COLUMNS}) VALUES ({', '.join('?' * 24)})"  # noqa: S608 - no value is in it

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """An aware moment as a number."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(number: int) -> datetime:
    """The moment that a number stands for, in UTC."""
    return _EPOCH + number * _MICROSECOND


def row_of(number: int, memory: Memory) -> tuple[Any, ...]:
    """What `INSERT` takes."""
    source = memory.source
    return (
        number,
        memory.id,
        memory.text,
        source.author.value,
        source.by,
        source.run_id,
        source.uri,
        memory.tier.value,
        memory.type,
        memory.summary,
        json.dumps(memory.tags),
        memory.importance,
        memory.scope,
        memory.thread,
        memory.speaker,
        micros(memory.at),
        micros(memory.created_at),
        _micros_or_none(memory.expires_at),
        int(memory.pinned),
        json.dumps(dict(memory.data), ensure_ascii=False),
        memory.promoted_by,
        memory.helped,
        memory.misled,
        _micros_or_none(memory.forgotten_at),
    )


def memory_of_row(row: Iterable[Any]) -> Memory:
    """The memory whose `COLUMNS` these are."""
    (id_, text, author, by_name, run_id, uri, tier, type_, summary, tags, importance, scope, thread, speaker, *rest) = (
        row
    )
    at, created_at, expires_at, pinned, data, promoted_by, helped, misled, forgotten_at = rest
    return Memory(
        id=id_,
        text=text,
        source=Source(Author(author), by_name, run_id, uri),
        tier=Tier(tier),
        type=type_,
        summary=summary,
        tags=tuple(json.loads(tags)),
        importance=importance,
        scope=scope,
        thread=thread,
        speaker=speaker,
        at=moment(at),
        created_at=moment(created_at),
        expires_at=_moment_or_none(expires_at),
        pinned=bool(pinned),
        data=json.loads(data),
        promoted_by=promoted_by,
        helped=helped,
        misled=misled,
        forgotten_at=_moment_or_none(forgotten_at),
    )


def _micros_or_none(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _moment_or_none(number: int | None) -> datetime | None:
    return None if number is None else moment(number)
