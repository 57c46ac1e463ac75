"""Values that hold texts: mappings, lists and tuples, as events and tool calls have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from kagura_kernel.domain.kit import MARKER, marker
from kagura_kernel.kit.redaction.names import Says, says
from kagura_kernel.kit.redaction.rules.assignments import kind_of, secret

_DEEPEST = 200


def redacted_fields(value: Any, redact: Callable[[str], str], depth: int = 0) -> Any:
    """The same value without secrets in its texts, keys too; the very same object when there was none.

    Raises:
        RecursionError: It is nested deeper than 200.
    """
    if depth > _DEEPEST:
        raise RecursionError(f"values nested deeper than {_DEEPEST} are not looked through")
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return _same(value, redact(value))
    if isinstance(value, Mapping):
        return _mapping(value, redact, depth)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        new = [redacted_fields(item, redact, depth + 1) for item in value]
        if all(after is before for after, before in zip(new, value, strict=True)):
            return value
        return new if isinstance(value, list) else tuple(new)
    return value


def _mapping(value: Mapping[Any, Any], redact: Callable[[str], str], depth: int) -> Any:
    new: dict[Any, Any] = {}
    changed = False
    for key, item in value.items():
        clean = redacted_fields(key, redact, depth + 1) if isinstance(key, str) else key
        after = _behind(key, item) if isinstance(key, str) and isinstance(item, str) else item
        if after is item:
            after = redacted_fields(item, redact, depth + 1)
        changed = changed or after is not item or clean is not key
        new[clean] = after
    return new if changed else value


def _behind(key: str, item: str) -> str:
    """A text behind a key that says secret is one with fewer doubts."""
    name, text = key.encode("utf-8", "replace"), item.encode("utf-8", "replace")
    what = says(name)
    if what is Says.NOTHING or MARKER.search(item) or "\n" in item or not secret(what, name, text):
        return item
    return marker(kind_of(what, name))


def _same(before: str, after: str) -> str:
    return before if after == before else after
