"""The forms in which a secret turns up in text: plain, quoted, escaped, in hexadecimal, inside longer base64.

Decides, does nothing. What a program does to a secret on purpose (reversing it, say) is not a usual form.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import quote, quote_plus

from kagura_kernel.membrane.credentials.secret import Secret

SHORTEST = 4
"""Characters; a shorter secret would hide ordinary words and is left alone."""

_SHORTEST_ENCODED = 8
_SHORTEST_LINE = 16


def needles(secrets: Iterable[Secret]) -> tuple[str, ...]:
    """All forms of all secrets, without line ends, the longest first."""
    found: set[str] = set()
    for secret in secrets:
        value = secret.reveal()
        found |= {form for form in _plain(value) if len(form) >= SHORTEST}
        if len(value) >= SHORTEST:
            found |= {form for form in _encoded(value) if len(form) >= _SHORTEST_ENCODED}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def as_bytes(forms: Iterable[str]) -> tuple[bytes, ...]:
    """The same forms as bytes of UTF-8 and, where that can be, Latin-1, the longest first.

    What was no UTF-8 in the first place is itself again.
    """
    found: set[bytes] = set()
    for form in forms:
        found.add(form.encode("utf-8", "surrogatepass"))
        with suppress(UnicodeEncodeError):
            found.add(form.encode("latin-1"))
        try:
            found.add(form.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            # A surrogate that stands for no byte.
            continue
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _plain(value: str) -> set[str]:
    flat = flatten(value)
    lines = {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    # The guards of a PEM block are no secret.
    return {flat} | {line for line in lines if not line.startswith("-----")}


def _encoded(value: str) -> set[str]:
    data = value.encode("utf-8", "surrogatepass")
    forms = {data.hex(), data.hex().upper(), data.hex(":"), data.hex(" ")}
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        forms |= {escaped, escaped.replace("/", "\\/"), json.dumps(escaped)[1:-1]}
    for quoted in (quote(value, safe="", errors="replace"), quote(value, errors="replace")):
        forms |= {quoted, _small_hex(quoted)}
    plus = quote_plus(value, errors="replace")
    forms |= {plus, _small_hex(plus)}
    # As Python, shells and C programs write what is not ASCII.
    forms |= {ascii(value)[1:-1], value.encode("unicode_escape").decode("ascii")}
    with suppress(UnicodeEncodeError):
        # Read as Latin-1 what is UTF-8, and the other way round: what old servers do with a header.
        forms |= {data.decode("latin-1"), "".join(chr(byte) for byte in value.encode("latin-1"))}
    for offset in range(3):
        core = _base64_core(data, offset)
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return {flatten(form) for form in forms}


def flatten(text: str) -> str:
    """The text without line ends: tools wrap what is long."""
    return text.replace("\n", "").replace("\r", "")


def _small_hex(quoted: str) -> str:
    head, *rest = quoted.split("%")
    return head + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in rest)


def _base64_core(data: bytes, offset: int) -> str:
    """Those base64 digits that the data alone decides when it stands `offset` bytes (modulo 3) into a longer text."""
    digits = base64.b64encode(bytes(offset) + data).decode("ascii").rstrip("=")
    start = (0, 2, 3)[offset]
    return digits[start:] if (offset + len(data)) % 3 == 0 else digits[start:-1]
