"""Places in files, between a brain's words and a language server's. Pure.

A brain counts lines and columns from 1 and characters as Python does; a server counts from 0, and columns in halves of
UTF-16.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from kagura_kernel.tools.toolsets.cutting import Breach
from kagura_kernel.tools.toolsets.words import word

_WORD = re.compile(r"\w+")
_LONGEST_LINE = 300


class NoSuchPlace(ValueError):
    """A place that the file does not have; the text says so in words for a brain."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is.

    Attributes:
        path: In the box, absolute; of what is no file, its URI.
        line: From 0.
        column: From 0, in halves of UTF-16.
    """

    path: str
    line: int
    column: int


def uri_of(path: str) -> str:
    """A path in the box as a URI."""
    return "file://" + quote(path)


def path_of(uri: Any) -> str:
    """The path that a server's URI names; the URI itself where it is no file's, as some are of what lies in archives.

    Raises:
        Breach: it is no text.
    """
    if not isinstance(uri, str):
        raise Breach("it named a place that is none")
    try:
        parts = urlsplit(uri)
    except ValueError:
        return word(uri)
    if parts.scheme == "file" and parts.path.startswith("/"):
        return posixpath.normpath(unquote(parts.path))
    return word(uri)


def place_of(said: Any) -> Place:
    """A `Location` or a `LocationLink`.

    Raises:
        Breach: it is neither.
    """
    match said:
        case {"uri": uri, "range": {"start": {"line": int() as line, "character": int() as column}}}:
            return Place(path_of(uri), max(0, line), max(0, column))
        case {
            "targetUri": uri,
            "targetSelectionRange": {"start": {"line": int() as line, "character": int() as column}},
        }:
            return Place(path_of(uri), max(0, line), max(0, column))
    raise Breach("it answered with a place that is none")


def position(text: str, line: int, symbol: str, column: int | None) -> dict[str, int]:
    """The position that a brain means, in a server's words.

    Args:
        text: The file's.
        line: From 1.
        symbol: A text on that line; empty for none.
        column: From 1; None for the symbol, or for the line's first word.

    Raises:
        NoSuchPlace: the file has no such line, or the line no such text.
    """
    lines = text.split("\n")
    if line > len(lines):
        raise NoSuchPlace(f"the file has {len(lines)} lines; there is no line {line}")
    row = lines[line - 1].rstrip("\r")
    if column is not None:
        at = min(column - 1, len(row))
    elif symbol:
        found = re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", row)
        at = found.start() if found else row.find(symbol)
        if at < 0:
            raise NoSuchPlace(f"there is no {symbol!r} on line {line}, which is: {shortened(row)}")
        # Of a dotted name the last part is meant.
        at += symbol.rfind(".") + 1
    else:
        first = _WORD.search(row)
        at = first.start() if first else 0
    return {"line": line - 1, "character": len(row[:at].encode("utf-16-le", "surrogatepass")) // 2}


def shown_place(place: Place, root: str, lines: list[str] | None) -> str:
    """`path:line:column: the line`, as a brain counts; paths of the workspace without its root."""
    path = place.path.removeprefix(root.rstrip("/") + "/")
    row = lines[place.line] if lines is not None and place.line < len(lines) else ""
    column = len(row.encode("utf-16-le", "surrogatepass")[: place.column * 2].decode("utf-16-le", "ignore"))
    if lines is None:
        column = place.column
    told = f"{path}:{place.line + 1}:{column + 1}"
    return f"{told}: {shortened(row)}" if row.strip() else told


def shortened(row: str) -> str:
    """A line without its indentation, at most so long."""
    row = row.strip()
    return row if len(row) <= _LONGEST_LINE else f"{row[: _LONGEST_LINE - 1]}…"
