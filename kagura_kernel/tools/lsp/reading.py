"""What a language server says, read: diagnostics, symbols, hovers, places. It is believed nothing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kagura_kernel.tools.lsp.places import Place, place_of
from kagura_kernel.tools.toolsets.cutting import Breach
from kagura_kernel.tools.toolsets.words import readable, word

MAX_SHOWN = 200
"""Diagnostics, places or symbols in one answer."""

_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_LONGEST = 20_000
_DEEPEST = 16
# The protocol's own list, from 1.
_KINDS = [
    "file",
    "module",
    "namespace",
    "package",
    "class",
    "method",
    "property",
    "field",
    "constructor",
    "enum",
    "interface",
    "function",
    "variable",
    "constant",
    "string",
    "number",
    "boolean",
    "array",
    "object",
    "key",
    "null",
    "enum-member",
    "struct",
    "event",
    "operator",
    "type-parameter",
]


def read_places(result: Any) -> list[Place]:
    """The places in an answer; empty for none.

    Raises:
        Breach: it is no such answer.
    """
    if result is None:
        return []
    said = result if isinstance(result, list) else [result]
    return list(dict.fromkeys(place_of(one) for one in said))


def read_diagnostics(items: Any) -> list[str]:
    """A line for each, in the order of the file.

    Raises:
        Breach: they are none.
    """
    if not isinstance(items, list):
        raise Breach("its diagnostics are none")
    found: list[tuple[int, int, str]] = []
    for item in items:
        match item:
            case {"range": {"start": {"line": int() as line, "character": int() as column}}, "message": message}:
                severity = item.get("severity")
                kind = _SEVERITIES.get(severity, "error") if isinstance(severity, int) else "error"
                by = " ".join(filter(None, (word(item.get("source")), word(_code(item.get("code"))))))
                told = f"{line + 1}:{column + 1}: {kind}: {_message(message)}{f' [{by}]' if by else ''}"
                found.append((line, column, told))
            case _:
                raise Breach("its diagnostics are none")
    return [told for _, _, told in sorted(found)]


def read_hover(result: Any) -> str:
    """The text of a hover; empty for none.

    Raises:
        Breach: it is none.
    """
    if result is None:
        return ""
    if not isinstance(result, dict):
        raise Breach("its hover is none")
    contents = result.get("contents")
    parts = contents if isinstance(contents, list) else [contents]
    return "\n\n".join(filter(None, (_marked(part) for part in parts))).strip()


def read_symbols(result: Any) -> list[str]:
    """A line for each symbol of a file, indented by how deep it lies.

    Raises:
        Breach: they are none.
    """
    if result is None:
        return []
    if not isinstance(result, list):
        raise Breach("its symbols are none")
    lines: list[str] = []
    _add_symbols(result, 0, lines)
    return lines


def bounded_lines(lines: Sequence[str], none: str) -> str:
    """The lines as a text, the first of them where there are too many, or what to say when there are none."""
    if not lines:
        return none
    rest = len(lines) - MAX_SHOWN
    return "\n".join([*lines[:MAX_SHOWN], *([f"… and {rest} more"] if rest > 0 else [])])


def _add_symbols(symbols: Sequence[Any], depth: int, lines: list[str]) -> None:
    for symbol in symbols:
        match symbol:
            case {"name": str() as name, "selectionRange": {"start": {"line": int() as line}}}:
                pass
            case {"name": str() as name, "location": {"range": {"start": {"line": int() as line}}}}:
                pass
            case _:
                raise Breach("its symbols are none")
        lines.append(f"{'  ' * depth}{line + 1}: {_kind(symbol.get('kind'))} {word(name)}")
        children = symbol.get("children")
        if isinstance(children, list) and depth < _DEEPEST:
            _add_symbols(children, depth + 1, lines)


def _kind(number: Any) -> str:
    return _KINDS[number - 1] if type(number) is int and 0 < number <= len(_KINDS) else "symbol"


def _code(code: Any) -> str:
    return str(code) if isinstance(code, int | str) else ""


def _message(message: Any) -> str:
    text = message.get("value") if isinstance(message, dict) else message
    return " ".join(readable(text, 2000).split())


def _marked(part: Any) -> str:
    match part:
        case {"value": str() as text} | (str() as text):
            return readable(text, _LONGEST)
    return ""
