"""What a plugin can be configured with: the `SCHEMA` literal of its source, read as data and never executed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from kagura_kernel.domain.errors import PluginInvalid
from kagura_kernel.plugins.wording import hint, unseen

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

    Args:
        literal: What `ast.literal_eval` made of `SCHEMA`.
        plugin: Its name, for the error.

    Raises:
        PluginInvalid: with everything that is wrong.
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
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
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
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not _finite(bound):
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


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False


def _cut(key: Any) -> str:
    text = ascii(key)
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - a line of a message
