"""What a plugin can be configured with, read from its source as data, and values that fit it. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeGuard, get_args

from kagura_kernel.domain.errors import PluginInvalid, PluginNotConfigured
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.plugins.text import hint, unseen

FieldType = Literal["string", "number", "boolean", "array"]
ItemType = Literal["string", "number", "boolean"]

Scalar = str | float | int | bool
Value = Scalar | tuple[Scalar, ...]
"""What a field can hold; an array is a tuple."""

MAX_FIELDS = 64
MAX_DESCRIPTION = 500
MAX_TEXT = 4096
"""Characters of one configured text where a field says nothing else."""
MAX_LENGTH = 65536
"""The most that a field may say about that."""
MAX_ITEMS = 256

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_KEYS = ("type", "description", "promptKey", "default", "items", "minimum", "maximum", "maxLength")
_TYPES = get_args(FieldType)
_ITEMS = get_args(ItemType)


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that can be configured."""

    type: FieldType  # What it holds
    description: str  # For whoever fills it in
    prompt_key: bool = False  # Whether it is always asked for, a default or not
    default: Value | None = None  # What it holds when nobody says anything; None for a field that has none
    items: ItemType = "string"  # What an array holds
    minimum: float | None = None  # The least that a number may be
    maximum: float | None = None  # The most that a number may be
    max_length: int | None = None  # The most characters of a text, of each text in an array

    @property
    def asked(self) -> bool:
        """Whether a person is asked when the value was not given: always by promptKey, always without a default."""
        return self.prompt_key or self.default is None


Schema = Mapping[str, Field]
"""Fields by name, in the order of the source."""


def read_schema(literal: Any, plugin: str) -> Schema:
    """The schema that a literal describes; an empty one describes a plugin without configuration.

    Raises `PluginInvalid`: with everything that is wrong.
    """
    if not isinstance(literal, dict):
        raise PluginInvalid(plugin, ["SCHEMA is missing, or no dictionary of fields: SCHEMA = {...}; {} for none"])
    if len(literal) > MAX_FIELDS:
        raise PluginInvalid(plugin, [f"SCHEMA has {len(literal)} fields; at most {MAX_FIELDS} are read"])
    problems: list[str] = []
    fields: dict[str, Field] = {}
    for name, parts in literal.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problems.append(f"SCHEMA: {_cut(name)} is no name for a field: letters, digits and _, a letter first")
            continue
        wrong, field = _read_field(parts)
        problems += [f"SCHEMA, {name}: {why}" for why in wrong]
        if field is not None:
            fields[name] = field
    if problems:
        raise PluginInvalid(plugin, problems)
    return MappingProxyType(fields)


def check_value(field: Field, value: Value) -> str:
    """Why a value does not fit a field, as half a sentence that does not repeat it; empty when it fits."""
    if field.type != "array":
        return "it is one value, not a list" if isinstance(value, tuple) else _check_scalar(field.type, field, value)
    if not isinstance(value, tuple):
        return "it is a list"
    if len(value) > MAX_ITEMS:
        return f"it has at most {MAX_ITEMS} entries"
    return next((why for item in value if (why := _check_scalar(field.items, field, item))), "")


def plain_number(number: float) -> str:
    """A number as a person writes it: 5 for 5.0, and every digit of 10240000."""
    return str(int(number)) if float(number).is_integer() else repr(number)


def _check_scalar(kind: ItemType, field: Field, value: Scalar) -> str:
    if kind == "boolean":
        return "" if isinstance(value, bool) else "it is yes or no"
    if kind == "number":
        return _check_number(field, value)
    if not isinstance(value, str):
        return "it is a text"
    most = MAX_TEXT if field.max_length is None else field.max_length
    if len(value) > most:
        return f"it has at most {most} letters"
    if sign := unseen(value):
        return f"it holds {sign}, which nobody would see"
    return ""


def _check_number(field: Field, value: Scalar) -> str:
    if not _is_number(value):
        return "it is a number"
    if field.minimum is not None and value < field.minimum:
        return f"it is at least {plain_number(field.minimum)}"
    if field.maximum is not None and value > field.maximum:
        return f"it is at most {plain_number(field.maximum)}"
    return ""


def _read_field(parts: Any) -> tuple[list[str], Field | None]:
    """What is wrong with one field, and the field where nothing is."""
    if not isinstance(parts, dict):
        return ["it is no dictionary"], None
    problems = [f"there is no key {_cut(key)}{hint(str(key), _KEYS)}" for key in parts if key not in _KEYS]
    problems += _check_shape(parts)
    if problems:
        return problems, None
    default = parts.get("default")
    field = Field(
        type=parts["type"],
        description=parts["description"],
        prompt_key=parts.get("promptKey", False),
        default=tuple(default) if isinstance(default, list | tuple) else default,
        items=parts.get("items", {}).get("type", "string"),
        minimum=parts.get("minimum"),
        maximum=parts.get("maximum"),
        max_length=parts.get("maxLength"),
    )
    if field.default is not None and (why := check_value(field, field.default)):
        return [f"its default does not fit it: {why}"], None
    return [], field


def _check_shape(parts: Mapping[Any, Any]) -> list[str]:
    """What is wrong with the parts of a field, each by itself, and with those that do not go together."""
    kind = parts.get("type")
    problems = []
    if kind not in _TYPES:
        problems.append(f"type is one of {', '.join(_TYPES)}")
    if why := _check_description(parts.get("description")):
        problems.append(why)
    if not isinstance(parts.get("promptKey", False), bool):
        problems.append("promptKey is True or False")
    items = parts.get("items", {"type": "string"})
    if not isinstance(items, dict) or set(items) != {"type"} or items["type"] not in _ITEMS:
        problems.append(f"items is {{'type': one of {', '.join(_ITEMS)}}}")
    elif "items" in parts and kind != "array":
        problems.append("items belongs to an array")
    else:
        problems += _check_bounds(parts, str(items["type"] if kind == "array" else kind))
    return problems


def _check_description(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        return "description is a text that says what it is for"
    if len(text) > MAX_DESCRIPTION:
        return f"description has at most {MAX_DESCRIPTION} letters"
    if sign := unseen(text):
        return f"description holds {sign}, which a reader would not see; it is one line"
    return ""


def _check_bounds(parts: Mapping[Any, Any], kind: str) -> list[str]:
    problems = []
    for key in ("minimum", "maximum"):
        if (bound := parts.get(key)) is None:
            continue
        if not _is_number(bound):
            problems.append(f"{key} is a number")
        elif kind != "number":
            problems.append(f"{key} belongs to a number")
    low, high = parts.get("minimum"), parts.get("maximum")
    if not problems and low is not None and high is not None and low > high:
        problems.append("minimum is larger than maximum")
    if (length := parts.get("maxLength")) is not None:
        if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= MAX_LENGTH:
            problems.append(f"maxLength is a whole number from 1 to {MAX_LENGTH}")
        elif kind != "string":
            problems.append("maxLength belongs to a string")
    return problems


def _is_number(value: Any) -> TypeGuard[float]:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _cut(key: Any) -> str:
    text = ascii(key)
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - a line of a message


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

    Raises `PluginNotConfigured`: with everything that is wrong.
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

    Raises `ValueError`: it means none; the text says why, and fits behind the field's name.
    """
    if text.strip():
        return parse_value(field, text)
    if field.default is None:
        raise ValueError("it needs a value; it has no default")
    return field.default


def parse_value(field: Field, text: str) -> Value:
    """The value that a text means: y, yes, true, 1; a number; a list with commas, with or without brackets.

    Raises `ValueError`: it means none, or one that does not fit; the text says why, and fits behind the field's name.
    """
    value: Value = _parse_array(field.items, text) if field.type == "array" else _parse_scalar(field.type, text)
    if why := check_value(field, value):
        raise ValueError(why)
    return value


def complete(schema: Schema, given: Mapping[str, Value], plugin: str) -> Configured:
    """All values: given ones, and defaults for the rest.

    Raises `PluginNotConfigured`: values are wrong, unknown, or missing (`missing` names these).
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
