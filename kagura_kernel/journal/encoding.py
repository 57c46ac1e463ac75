"""Events as text and back: the `body` of a row."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from kagura_kernel.domain.events import Event, parse_event


def stamp(moment: datetime) -> str:
    """A moment as the journal writes it: UTC, microseconds, always 27 characters, so that text sorts as time does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(text: str) -> datetime:
    """The moment behind a stamp."""
    return datetime.fromisoformat(text)


def encode(event: Event) -> str:
    r"""The event as JSON.

    Text that is not Unicode (a file name with odd bytes) comes back exactly: such a text is written in ASCII, each odd
    byte as the escape `\udcNN`. Values that JSON does not have stand there as their text.
    """
    try:
        return event.model_dump_json()
    except ValueError:
        return json.dumps(event.model_dump(mode="python"), default=_foreign)


def decode(body: str) -> Event:
    """The event behind a body; a kind that this version does not know comes back as a plain `Event`.

    Raises:
        ValueError: the text is no event at all.
    """
    try:
        return parse_event(body)
    except ValueError:
        return Event.model_validate_json(body)


def as_text(value: str) -> str:
    r"""The text with what no database takes written out in plain characters: odd bytes as `\udcNN`, NUL as `\x00`."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _foreign(value: Any) -> str:
    return stamp(value) if isinstance(value, datetime) else as_text(str(value))
