"""From words and answers to values that fit a schema. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kagura_kernel.domain.errors import PluginNotConfigured
from kagura_kernel.plugins.schema import Field, ItemType, Scalar, Schema, Value, check_value, plain_number
from kagura_kernel.plugins.wording import hint

MASK = "***"
MAX_SHOWN = 500

_NAMED = re.compile(r"passw(or)?d|passphrase|secret|token|api_?key|access_?key|private_?key|credential", re.IGNORECASE)
_USER = re.compile(r"://[^/?#@:]*:")
_BLANKS = re.compile(r"(\s+)")
_PARAMETER = re.compile(
    r"([?&;\s](?:password|passwd|pwd|token|access_token|secret|sig|signature|key|api_?key)=)[^&;\s#]*", re.IGNORECASE
)


def masked(text: str) -> str:
    """The text without the passwords of the URLs and connection strings in it."""
    words = "".join(map(_without_password, _BLANKS.split(text)))
    return _PARAMETER.sub(rf"\g<1>{MASK}", words)


def _without_password(word: str) -> str:
    at = word.rfind("@")
    user = _USER.search(word, 0, max(at, 0))
    # To the last @: a password that was not escaped may hold any letter.
    return f"{word[: user.end()]}{MASK}{word[at:]}" if user else word


def masked_field(name: str, text: str) -> str:
    """The value of a field as it may be shown; wholly masked where the field's name says that it is a secret."""
    if text and _NAMED.search(name):
        return MASK
    told = masked(text)
    return told if len(told) <= MAX_SHOWN else f"{told[: MAX_SHOWN - 1]}…"


__all__ = ["Configured", "Question", "Value", "complete", "parse_answer", "parse_inline", "questions"]

_YES = frozenset({"y", "yes", "true", "1", "on"})
_NO = frozenset({"n", "no", "false", "0", "off"})
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to ask a person."""

    name: str  # The field
    field: Field  # All about it
    shown_default: str  # As it stands in brackets behind the name: `42`, `y`, `[a, b]`; empty when there is none


@dataclass(frozen=True, slots=True)
class Configured:
    """A complete configuration."""

    values: Mapping[str, Value]  # Every field of the schema, in its order
    silent: tuple[str, ...] = ()  # Fields that took their default without anybody being asked or saying anything


def parse_inline(words: Sequence[str], schema: Schema, plugin: str) -> dict[str, Value]:
    """The values that words like `baseDir=/data` give; a shell's quoting is undone by whoever splits the line.

    Raises:
        PluginNotConfigured: with everything that is wrong.
    """
    given: dict[str, Value] = {}
    problems: list[str] = []
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            problems.append(f"{word[:80]!r} is no NAME=VALUE")
        elif name not in schema:
            known = f" (it has {', '.join(schema)})" if schema else " (it has none)"
            problems.append(f"there is no field {name[:80]!r}{hint(name, schema) or known}")
        elif name in given:
            problems.append(f"{name}: it is given twice")
        else:
            try:
                given[name] = parse_value(schema[name], text)
            except ValueError as error:
                problems.append(f"{name}: {error}")
    if problems:
        raise PluginNotConfigured(plugin, problems)
    return given


def questions(schema: Schema, given: Mapping[str, Value]) -> list[Question]:
    """What to ask for: fields that were not given and have promptKey or no default, in the schema's order."""
    return [
        Question(name, field, _plain(field.default) if field.default is not None else "")
        for name, field in schema.items()
        if field.asked and name not in given
    ]


def parse_answer(field: Field, text: str) -> Value:
    """The value that a person's answer means; one that is empty or blank takes the default.

    Raises:
        ValueError: it means none; the text says why, and fits behind the field's name.
    """
    if text.strip():
        return parse_value(field, text)
    if field.default is None:
        raise ValueError("it needs a value; it has no default")
    return field.default


def parse_value(field: Field, text: str) -> Value:
    """The value that a text means: y, yes, true, 1; a number; a list with commas, with or without brackets.

    Raises:
        ValueError: it means none, or one that does not fit; the text says why, and fits behind the field's name.
    """
    value: Value = _parse_array(field.items, text) if field.type == "array" else _parse_scalar(field.type, text)
    if why := check_value(field, value):
        raise ValueError(why)
    return value


def complete(schema: Schema, given: Mapping[str, Value], plugin: str) -> Configured:
    """All values: given ones, and defaults for the rest.

    Raises:
        PluginNotConfigured: values are wrong, unknown, or missing (`missing` names these).
    """
    problems = [f"there is no field {name[:80]!r}{hint(name, schema)}" for name in given if name not in schema]
    values: dict[str, Value] = {}
    silent: list[str] = []
    missing: list[str] = []
    for name, field in schema.items():
        if name in given:
            values[name] = given[name]
            if why := check_value(field, given[name]):
                problems.append(f"{name}: {why}")
        elif field.default is not None:
            values[name] = field.default
            silent.append(name)
        else:
            missing.append(name)
            problems.append(f"{name}: it needs a value ({field.description}); give it as {name}=VALUE")
    if problems:
        raise PluginNotConfigured(plugin, problems, missing)
    return Configured(MappingProxyType(values), tuple(silent))


def silent_summary(configured: Configured) -> str:
    """One sentence about the defaults that nobody was asked about; empty when there are none."""
    if not configured.silent:
        return ""
    told = shown({name: configured.values[name] for name in configured.silent})
    listed = ", ".join(f"{name}={text}" for name, text in told.items())
    what = "1 setting has its default" if len(told) == 1 else f"{len(told)} settings have their defaults"
    return f"{what}: {listed}. NAME=VALUE sets another."


def shown(values: Mapping[str, Value]) -> dict[str, str]:
    """The values as they may be shown and recorded: passwords are masked, long texts cut."""
    return {name: masked_field(name, _plain(value)) for name, value in values.items()}


def as_words(values: Mapping[str, Value]) -> tuple[str, ...]:
    """The values as `parse_inline` reads them; those that hold a secret are left out, and have to be given again."""
    plain = {
        name: json.dumps(list(value)) if isinstance(value, tuple) else _plain(value) for name, value in values.items()
    }
    return tuple(f"{name}={text}" for name, text in plain.items() if MASK not in masked_field(name, text))


def _plain(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, bool):
        return "y" if value else "n"
    return value if isinstance(value, str) else plain_number(value)


def _parse_scalar(kind: ItemType, text: str) -> Scalar:
    if kind == "string":
        return text
    word = text.strip()
    if kind == "boolean":
        if word.lower() in _YES | _NO:
            return word.lower() in _YES
        raise ValueError(f"{text[:80]!r} is neither yes nor no; write y or n")
    if _WHOLE.fullmatch(word):
        return int(word)
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"{text[:80]!r} is no number")
    return float(word)


def _parse_array(kind: ItemType, text: str) -> tuple[Scalar, ...]:
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        if (quoted := _quoted(inner)) is not None:
            return tuple(_parse_scalar(kind, item) for item in quoted)
        inner = inner[1:-1]
    return tuple(_parse_scalar(kind, item.strip()) for item in inner.split(",") if item.strip())


def _quoted(text: str) -> list[str] | None:
    """The entries of a list in JSON, for those that hold commas; None when it is none."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or any(isinstance(item, dict | list) or item is None for item in found):
        return None
    return [item if isinstance(item, str) else json.dumps(item) for item in found]
