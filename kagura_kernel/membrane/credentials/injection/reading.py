"""Reading the `inject` settings of one provider: every problem told, no value repeated. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from kagura_kernel.membrane.credentials.injection.presets import PRESETS
from kagura_kernel.membrane.credentials.injection.settings import Injection, own_slots, slots

WAYS = ("header", "file", "env")
_INJECTION: TypeAdapter[Injection] = TypeAdapter(Annotated[Injection, Field(discriminator="way")])


def read_injections(value: Any, where: str, parts: tuple[str, ...]) -> tuple[tuple[Injection, ...] | None, list[str]]:
    """What `inject` says, and what is wrong with it; None when it is not there.

    Args:
        value: As TOML gave it: a table, or several.
        where: Where it stands, for messages.
        parts: What the provider's credentials are made of.
    """
    if value is None:
        return None, []
    several = isinstance(value, list)
    tables = value if several else [value]
    found: list[Injection] = []
    problems: list[str] = []
    for number, table in enumerate(tables):
        at = f"{where}.{number}" if several else where
        ways, wrong = _one(table, at)
        problems += wrong
        for way in ways:
            problems += _wrong_slots(way, at, parts)
        found += ways
    return tuple(found), problems


def told(error: ValidationError, where: str) -> list[str]:
    """The problems that pydantic found, each a line: names of settings, never a value."""
    details = error.errors(include_input=False, include_url=False, include_context=False)
    return [_problem(where, detail["loc"], detail["type"], detail["msg"]) for detail in details]


def _one(table: Any, where: str) -> tuple[tuple[Injection, ...], list[str]]:
    if not isinstance(table, dict):
        return (), [f"{where}: it must be a table"]
    if "preset" in table:
        return _preset(table, where)
    way = table.get("way", "header")
    if way not in WAYS:
        return (), [f"{where}.way: it must be one of {', '.join(WAYS)}"]
    try:
        return (_INJECTION.validate_python({"way": way} | table),), []
    except ValidationError as error:
        # Not chained: a chained validation error could print what was given. The first part of each place is the way.
        details = error.errors(include_input=False, include_url=False, include_context=False)
        return (), [_problem(where, detail["loc"][1:], detail["type"], detail["msg"]) for detail in details]


def _preset(table: Mapping[str, Any], where: str) -> tuple[tuple[Injection, ...], list[str]]:
    problems = [f"{where}.{name}: there is no such setting beside a preset" for name in table if name not in _BESIDE]
    preset = PRESETS.get(table["preset"]) if isinstance(table["preset"], str) else None
    if preset is None:
        problems.append(f"{where}.preset: it must be one of {', '.join(PRESETS)}")
    upstream = table.get("upstream", "")
    if not isinstance(upstream, str):
        problems.append(f"{where}.upstream: it must be a text")
    if problems or preset is None:
        return (), problems
    try:
        return preset(upstream), []
    except ValidationError as error:
        return (), told(error, where)


_BESIDE = frozenset({"preset", "upstream"})


def _wrong_slots(way: Injection, where: str, parts: tuple[str, ...]) -> list[str]:
    unknown = sorted((slots(way) - set(parts)) | own_slots(way))
    if not unknown:
        return []
    return [f"{where}: a template names something that there is not; the credential has {', '.join(parts)}"]


def _problem(where: str, place: tuple[int | str, ...], sort: str, text: str) -> str:
    at = ".".join([where, *map(str, place)])
    if sort == "extra_forbidden":
        return f"{at}: there is no such setting"
    return f"{at}: {text.removeprefix('Value error, ')}"
