"""A server's JSON Schema, made into one that can be shown to a brain and checked against without harm. Pure.

A brain's program checks arguments against it in the kernel's own process: so no patterns (they can take for ever), no
reference to anything outside, and no reference that leads in a circle or multiplies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kagura_kernel.tools.toolsets.cutting import readable

MAX_NODES = 2000
MAX_DEPTH = 32
MAX_TEXT = 2048
"""Characters of one description or title in it."""

_TEXTS = frozenset({"description", "title"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
# A model's service refuses a whole conversation for a tool whose arguments are called otherwise.
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


class SchemaRefused(ValueError):
    """A schema that cannot be offered; the text says why, half a sentence."""


def clean_schema(schema: Any, *, most: int) -> dict[str, Any]:
    """The schema of an object, with what is safe of it; references to its own definitions are put in their place.

    Args:
        schema: What a server said.
        most: Bytes that it may have, before and after.

    Raises:
        SchemaRefused: it is no schema of an object, refers to something outside, or is too large.
    """
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise SchemaRefused("its arguments are no object")
    _require_size(schema, most)
    found = _Cleaner(schema).cleaned()
    _require_size(found, most)
    return found


def _require_size(schema: Mapping[str, Any], most: int) -> None:
    if len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")) > most:
        raise SchemaRefused(f"its schema is longer than {most:,} bytes")


class _Cleaner:
    """One schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def cleaned(self) -> dict[str, Any]:
        found = self._schema(self._root, 0, ())
        properties = found.pop("properties", {})
        required = [name for name in found.pop("required", ()) if name in properties]
        if any(not _ARGUMENT.fullmatch(name) for name in properties):
            raise SchemaRefused("an argument of it has a name that cannot be offered")
        # Services that think take no alternatives at the top; its server still insists on them.
        found = {key: value for key, value in found.items() if key not in _LISTS}
        # A form of their own is what some programs take an object without `properties` for.
        return {**found, "type": "object", "properties": properties, "required": required}

    def _schema(self, schema: Any, depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise SchemaRefused("its schema is too large when its references are written out")
        if not isinstance(schema, Mapping):
            # `true` and `false` are schemas too; what is offered does not have to refuse what its server refuses.
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._referred(schema, reference, depth, within)
        if depth > MAX_DEPTH:
            return {}
        return {
            key: kept for key, value in schema.items() if (kept := self._kept(key, value, depth, within)) is not None
        }

    def _referred(
        self, schema: Mapping[str, Any], reference: str, depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        if not reference.startswith("#"):
            raise SchemaRefused("its schema refers to something outside of it")
        beside = {key: text for key, value in schema.items() if key in _TEXTS and (text := _text(value)) is not None}
        if reference in within:
            # A tree of its own kind: deeper levels may hold anything.
            return beside
        return {**self._schema(self._found(reference), depth, (*within, reference)), **beside}

    def _found(self, reference: str) -> Any:
        found: Any = self._root
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise SchemaRefused("its schema refers to what it does not hold")
            found = found[key]
        return found

    def _kept(self, key: str, value: Any, depth: int, within: tuple[str, ...]) -> Any:
        """What of one keyword is kept; None for nothing."""
        if (plain := _PLAIN.get(key)) is not None:
            return plain(value)
        if key == "properties" and isinstance(value, Mapping):
            return {name: self._schema(one, depth + 1, within) for name, one in value.items()}
        if key == "items" and isinstance(value, Mapping):
            return self._schema(value, depth + 1, within)
        if key == "additionalProperties":
            return value if isinstance(value, bool) else self._schema(value, depth + 1, within)
        if key in _LISTS and isinstance(value, list) and value:
            return [self._schema(one, depth + 1, within) for one in value]
        return None


def _text(value: Any) -> str | None:
    return readable(value, MAX_TEXT) if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _some(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) and value else None


def _names(value: Any) -> list[str] | None:
    return list(dict.fromkeys(one for one in value if isinstance(one, str))) if isinstance(value, list) else None


def _type(value: Any) -> Any:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
        return None
    return list(dict.fromkeys(names)) if isinstance(value, list) else value


_PLAIN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("description", "title"), _text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _whole),
    **dict.fromkeys(("enum", "examples"), _some),
    **dict.fromkeys(("default", "const"), lambda value: value),
    "required": _names,
    "type": _type,
}
