"""Texts from somebody else: JSON read strictly, words that a message may hold, and what was probably meant. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from kagura_kernel.domain.nesting import one_level_in
from kagura_kernel.domain.plugins import PluginFinding, Severity

MAX_DEPTH = 16


def reason(error: OSError) -> str:
    """Why the system refused something, in small letters."""
    return (error.strerror or "unknown reason").lower()


class NotReadable(Exception):
    """The bytes are no such document; the text says why and fits behind the file's name."""


def read_document(data: bytes, limit: int) -> tuple[dict[str, Any], list[str]]:
    """The JSON object in these bytes, and what is wrong with it although it can be read.

    Raises `NotReadable`: it has more, is no strict UTF-8 or no JSON object, begins with a BOM, holds NaN or half a pair
    of surrogates, or lies too deep.
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
    if _too_deep([document]):
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


def _too_deep(level: list[object]) -> bool:
    for _ in range(MAX_DEPTH):
        level = one_level_in(level)
    return any(isinstance(one, dict | list) for one in level)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_BLANKS = "\n\t"
# Format signs (they turn text around or join what looks apart), what has no meaning yet, and halves of a pair.
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Letters and marks that are drawn as nothing; the two selectors that emoji are written with are none of them.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)


def hint(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'this'?` or an empty text."""
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(word.casefold(), folded, n=1)
    return f", did you mean {folded[near[0]]!r}?" if near else ""


def unseen(text: str, *, lines: bool = False) -> str:
    """The first character that a reader would not see, as `U+202E`; empty when there is none.

    With `lines` it may have several lines and tabs.
    """
    for sign in text:
        if is_unseen(sign) and not (lines and sign in _BLANKS):
            return f"U+{ord(sign):04X}"
    return ""


def is_unseen(sign: str) -> bool:
    """Whether a reader would not see this character, or not what it does; line ends and tabs are such."""
    return unicodedata.category(sign) in _UNSEEN or _FILLERS.match(sign) is not None


def first_danger(findings: Sequence[PluginFinding]) -> str:
    """The first danger of these, as half a sentence with its place; empty when there is none."""
    found = next((finding for finding in findings if finding.severity is Severity.DANGER), None)
    if found is None:
        return ""
    message = found.message.rstrip(".")
    return f"{message} ({found.file}:{found.line})" if found.line else message
