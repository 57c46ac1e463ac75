"""JSON from somebody else, read strictly: whatever two readers could read in two ways is refused."""

from __future__ import annotations

import json
from typing import Any

from kagura_kernel.domain.nesting import one_level_in

MAX_DEPTH = 16


class NotReadable(Exception):
    """The bytes are no such document; the text says why and fits behind the file's name."""


def read_document(data: bytes, limit: int) -> tuple[dict[str, Any], list[str]]:
    """The JSON object in these bytes, and what is wrong with it although it can be read.

    Args:
        data: The file.
        limit: The most bytes that it may have.

    Raises:
        NotReadable: it has more, is no strict UTF-8 or no JSON object, begins with a BOM, holds NaN or half a pair of
            surrogates, or lies too deep.
    """
    text = _text(data, limit)
    twice: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for key, value in found:
            if key in merged:
                twice.append(f"the key {key[:80]!r} stands more than once in one object")
            merged.setdefault(key, value)
        return merged

    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_constant=_no_number)
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotReadable("holds half of a character that is written as two (\\ud800 to \\udfff)") from error
    except json.JSONDecodeError as error:
        raise NotReadable(f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from error
    except RecursionError as error:
        raise NotReadable("lies too deep in itself") from error
    except ValueError as error:
        raise NotReadable(f"is not JSON that can be used: {error}") from error
    if not isinstance(document, dict):
        raise NotReadable("is no JSON object: it must begin with { and end with }")
    if _too_deep(document):
        raise NotReadable(f"lies more than {MAX_DEPTH} levels deep in itself")
    return document, twice


def _text(data: bytes, limit: int) -> str:
    if len(data) > limit:
        raise NotReadable(f"has {len(data):,} bytes; at most {limit:,} are read")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise NotReadable("begins with a byte order mark; save it as UTF-8 without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotReadable(f"is not UTF-8: byte {error.start + 1} is part of no character") from error


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _too_deep(document: dict[str, Any]) -> bool:
    level: list[object] = [document]
    for _ in range(MAX_DEPTH):
        level = one_level_in(level)
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)
