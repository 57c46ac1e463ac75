"""Hiding live secrets anywhere in a value made of fields: an event before it is stored, a tool's answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kagura_kernel.membrane.credentials.scrub import Scrubber


def scrub_fields(scrubber: Scrubber, value: Any) -> Any:
    """The same value with `(hidden)` for every secret in its texts, keys included.

    Mappings become dicts, lists stay lists and tuples tuples; bytes are scrubbed too, and everything else is passed on
    as it is. Keys that become the same are numbered. Without a secret to look for, the value itself is returned.
    """
    return _scrubbed(scrubber, value) if scrubber.needles() else value


def _scrubbed(scrubber: Scrubber, value: Any) -> Any:
    match value:
        case str():
            shown = scrubber.scrub(value)
            # A text that is more than a text (the word of an enumeration) stays what it is.
            return value if shown == value else shown
        case bytes():
            stream = scrubber.filter()
            return stream.feed(value) + stream.finish()
        case Mapping():
            return _mapping(scrubber, value)
        case list():
            return [_scrubbed(scrubber, one) for one in value]
        case tuple():
            return tuple(_scrubbed(scrubber, one) for one in value)
        case _:
            return value


def _mapping(scrubber: Scrubber, value: Mapping[Any, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, one in value.items():
        shown = base = _scrubbed(scrubber, key)
        number = 1
        while shown in found:
            number += 1
            shown = f"{base} {number}"
        found[shown] = _scrubbed(scrubber, one)
    return found
