"""Short ways to write the schemas of tools. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def text(description: str, *, empty: bool = False) -> dict[str, Any]:
    """A text; not empty unless it may be."""
    return {"type": "string", "description": description} | ({} if empty else {"minLength": 1})


def whole(description: str, *, minimum: int = 1, maximum: int | None = None) -> dict[str, Any]:
    """A whole number."""
    top = {} if maximum is None else {"maximum": maximum}
    return {"type": "integer", "description": description, "minimum": minimum} | top


def flag(description: str) -> dict[str, Any]:
    """True or false; false when left out."""
    return {"type": "boolean", "description": description}


def texts(description: str) -> dict[str, Any]:
    """A list of texts."""
    return {"type": "array", "items": {"type": "string"}, "description": description}


def some_of(description: str, names: Sequence[str]) -> dict[str, Any]:
    """A list of these names."""
    return {"type": "array", "items": {"type": "string", "enum": list(names)}, "description": description}


def arguments(*required: str, **fields: dict[str, Any]) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }
