"""From what a person types, or a program says, to a question to the memory or a note for it.

Pure, but for the working directory, which says what this project is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kagura_kernel.cockpit.moments import read_time
from kagura_kernel.cockpit.naming import working_directory
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.memory import Author, Draft, Query, Source, Tier, project_scope

EVERYBODY = "everybody"
"""How the scope of what concerns everybody is typed."""

THIS_PROJECT = "project"
"""How the scope of the project in the working directory is typed."""

_AGE = re.compile(r"\d+[smhd]")


def query_of(values: Mapping[str, Any], now: datetime) -> Query:
    """What the values of `recall` or `memory list` ask for.

    Raises:
        UsageError: the time makes no sense.
    """
    return Query(
        " ".join(values.get("query", ())),
        k=values["k"],
        types=tuple(values["type"]),
        tags=tuple(values["tag"]),
        all_tags=values["all_tags"],
        tier=Tier(values["tier"]) if values["tier"] else None,
        scopes=scopes_of(values["scope"]),
        since=read_time(values["since"], now) if values["since"] else None,
    )


def program_query(
    text: str,
    k: int,
    *,
    types: str | Iterable[str] | None,
    tags: str | Iterable[str] | None,
    tier: str | None,
    since: str | datetime | timedelta | None,
    scopes: str | Iterable[str] | None,
    now: datetime,
) -> Query:
    """What a program asks for; one word may stand for a list of one.

    Raises:
        UsageError: the tier or the time makes no sense.
    """
    if tier not in {None, *Tier}:
        raise UsageError(f"{tier!r} is no tier; there are {', '.join(Tier)}.")
    if isinstance(since, str):
        since = read_time(since, now, "since")
    elif isinstance(since, timedelta):
        since = now - since
    elif since is not None:
        since = since.astimezone(UTC)
    return Query(
        text,
        k=k,
        types=_several(types),
        tags=_several(tags),
        tier=Tier(tier) if tier is not None else None,
        scopes=scopes_of(_several(scopes)),
        since=since,
    )


def scopes_of(words: Iterable[str]) -> tuple[str, ...] | None:
    """The scopes that these words name; None for any."""
    return tuple(map(scope_of, words)) or None


def scope_of(word: str) -> str:
    """The scope that a word names."""
    if word == THIS_PROJECT:
        return project_scope(working_directory())
    return "" if word == EVERYBODY else word


def note_of(values: Mapping[str, Any], now: datetime) -> Draft:
    """What the values of `memory add` want remembered.

    Raises:
        UsageError: the time makes no sense, or has passed.
    """
    return Draft(
        " ".join(values["text"]),
        Source(Author.HUMAN),
        type=values["type"],
        tags=tuple(values["tag"]),
        scope=scope_of(values["scope"]),
        pinned=values["pin"],
        expires_at=_coming(values["expires"], now) if values["expires"] else None,
    )


def _coming(text: str, now: datetime) -> datetime:
    """The moment after a time, or at one."""
    try:
        moment = read_time(text, now)
    except UsageError:
        raise UsageError("--expires takes a time to come, as in 12h, 30d, or 2027-01-31T12:00.") from None
    moment = now + (now - moment) if _AGE.fullmatch(text) else moment
    if moment <= now:
        raise UsageError(f"--expires {text}: that time has passed.")
    return moment


def _several(words: str | Iterable[str] | None) -> tuple[str, ...]:
    return () if words is None else (words,) if isinstance(words, str) else tuple(words)
