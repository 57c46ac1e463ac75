"""What is wrong with a document, in words for whoever wrote it: each with its place, none with a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from kagura_kernel.kit.definitions.wording import hint

_WORDS: Mapping[str, str] = {
    "missing": "it is missing",
    "string_type": "must be a text, in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "tuple_type": "must be a list",
    "union_tag_not_found": "its `type` is missing: it must be mcp or lsp",
    "union_tag_invalid": "its `type` must be mcp or lsp",
    "invalid_key": "a key must be a text",
    "recursion_loop": "must not lie in itself",
}
_BOUNDS: Mapping[str, tuple[str, str, str]] = {
    "greater_than": ("gt", "must be more than {}", ""),
    "greater_than_equal": ("ge", "must be at least {}", ""),
    "less_than": ("lt", "must be less than {}", ""),
    "less_than_equal": ("le", "must be at most {}", ""),
    "too_long": ("max_length", "must have at most {}", "entry"),
    "too_short": ("min_length", "must have at least {}", "entry"),
}
# Below these keys a choice between models adds its own label to the place of an error.
_CHOICES = frozenset({"toolsets", "agents"})
MAX_PROBLEMS = 50


def problems_of(
    error: ValidationError, keys: Iterable[type[BaseModel]], within: Sequence[int | str] = ()
) -> tuple[str, ...]:
    """Every problem as one line, `toolsets[1].command: it is missing`; at most 50, then how many more.

    Args:
        error: What the check found.
        keys: The models whose keys may have been meant by an unknown one.
        within: Where what was checked stands in its document.
    """
    known = sorted({name for model in keys for name in model.model_fields})
    found = error.errors(include_input=False, include_url=False)
    lines = list(
        dict.fromkeys(
            _line((*within, *one["loc"]), one["type"], one.get("ctx", {}), one["msg"], known) for one in found
        )
    )
    more = len(lines) - MAX_PROBLEMS
    return (*lines[:MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else []))


def place_of(location: Sequence[int | str]) -> str:
    """Where something stands, `toolsets[1].env.TZ`; empty for the whole."""
    parts: list[str] = []
    for part in _without_choices(location):
        parts.append(f"[{part}]" if isinstance(part, int) else f"{'.' if parts else ''}{shown_key(part)}")
    return "".join(parts)


def _line(location: Sequence[int | str], kind: str, facts: Mapping[str, Any], message: str, known: list[str]) -> str:
    place = place_of(location)
    if kind == "extra_forbidden":
        word = str(location[-1])
        return f"{place}: there is no such key{hint(word, known)}"
    if kind == "value_error":
        words = str(facts["error"])
    elif kind in _BOUNDS:
        bound, form, of = _BOUNDS[kind]
        words = form.format(_amount(facts[bound], of))
    else:
        words = _WORDS.get(kind) or message[:1].lower() + message[1:]
    return f"{place}: {words}" if place else words


def _amount(number: float, of: str) -> str:
    """`0` and not `0.0`; of things, how many: `1 entry`, `2 entries`."""
    told = f"{int(number):,}" if number == int(number) else f"{number:g}"
    return told if not of else f"{told} {of if number == 1 else f'{of[:-1]}ies'}"


def _without_choices(location: Sequence[int | str]) -> list[int | str]:
    kept: list[int | str] = []
    for at, part in enumerate(location):
        if at >= 2 and location[at - 2] in _CHOICES and part in {"mcp", "lsp", "inline", "reference"}:  # noqa: PLR2004
            continue
        if part == "[key]":
            continue
        kept.append(part)
    return kept


def shown_key(key: str) -> str:
    """A key as it stands in a message: it is the document's own word, so bounded, and nothing in it breaks the line."""
    plain = key if key.isascii() and key.isprintable() else ascii(key)[1:-1]
    return plain if len(plain) <= 64 else f"{plain[:63]}…"  # noqa: PLR2004 - a line of a message
