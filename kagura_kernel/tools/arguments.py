"""Checks a call's arguments against a tool's schema, in words that let a model mend them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

_WORDS = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


def argument_problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the arguments, one line each; empty when they fit.

    Knows what the schemas of this package use: an object without further keys, whose values are string, integer,
    number, boolean, or an array of strings, with `minimum`, `maximum`, `minLength` and `enum` (of the items too).
    """
    fields: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    problems = [f"{name!r} is missing" for name in schema.get("required", ()) if name not in arguments]
    for name, value in arguments.items():
        if name in fields:
            problem = _value_problem(fields[name], value)
            if problem:
                problems.append(f"{name!r} {problem}")
        else:
            near = get_close_matches(str(name), fields, n=1, cutoff=0.5)
            hint = f", did you mean {near[0]!r}?" if near else f" (known: {', '.join(fields) or 'none'})"
            problems.append(f"{name!r} is not an argument{hint}")
    return problems


def _value_problem(field: Mapping[str, Any], value: Any) -> str:
    kind = field["type"]
    if kind == "array":
        return _list_problem(field["items"], value)
    if not _is_a(kind, value):
        return f"must be {_WORDS[kind]}, not {type(value).__name__}"
    if "enum" in field and value not in field["enum"]:
        return f"must be one of {', '.join(map(str, field['enum']))}"
    if kind == "string":
        return _text_problem(field, value)
    if value < field.get("minimum", value) or value > field.get("maximum", value):
        return f"must lie between {field.get('minimum', '-∞')} and {field.get('maximum', '∞')}"
    return ""


def _list_problem(items: Mapping[str, Any], value: Any) -> str:
    strings = isinstance(value, Sequence) and not isinstance(value, str)
    if not strings or not all(isinstance(item, str) for item in value):
        return "must be a list of texts"
    known = items.get("enum", value)
    return "" if all(item in known for item in value) else f"must hold nothing but {', '.join(known)}"


def _text_problem(field: Mapping[str, Any], value: str) -> str:
    if len(value) < field.get("minLength", 0):
        return "must not be empty"
    # JSON can hold half of a character; no file, pipe or person can.
    return "holds half a character (a lone surrogate)" if re.search("[\ud800-\udfff]", value) else ""


def _is_a(kind: str, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            # JSON has one kind of number: 5.0 is a whole one.
            return (
                not isinstance(value, bool) and (isinstance(value, int) or value == int(value))
                if _finite(value)
                else False
            )
        case _:
            return _finite(value)


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0
