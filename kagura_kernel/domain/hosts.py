"""Names of hosts for reading: an international name in its letters, and beside it the spelling that counts."""

from __future__ import annotations

import re
import unicodedata

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_WORD = re.compile(r"(?P<host>[^:\s]+)(?::(?P<port>[0-9]{1,5}))?")


def place(host: str, port: int) -> str:
    """`example.org:443`, `[2001:db8::1]:443`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shown_place(host: str, port: int) -> str:
    """`example.org:443`; `bücher.example (xn--bcher-kva.example:443)` where letters stand for an `xn--` name."""
    counts = host if host.isascii() else _encoded(host) or host
    plain = place(counts, port)
    letters = _letters(counts)
    return f"{letters} ({plain})" if letters else plain


def shown_word(word: str) -> str:
    """A word after `--net` with both spellings of its host; what names no international host comes back as it is."""
    if word.isascii() and "xn--" not in word.lower():
        return word
    found = _WORD.fullmatch(word)
    counts = _encoded(found["host"]) if found else ""
    if found is None or not counts:
        return word
    plain = f"{counts}:{found['port']}" if found["port"] else counts
    letters = _letters(counts)
    return f"{letters} ({plain})" if letters else plain


def _letters(host: str) -> str:
    """What an ASCII name stands for; empty when that is itself, or cannot be shown without misleading."""
    if "xn--" not in host:
        return ""
    import idna

    try:
        letters = idna.decode(host)
    except (UnicodeError, IndexError):
        return ""
    # Letters that run the other way move what stands beside them, and nobody could tell name and port apart.
    if any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in letters):
        return ""
    return letters if letters != host else ""


def _encoded(host: str) -> str:
    """The ASCII spelling of a name, as the membrane compares it; empty when it has none."""
    import idna

    try:
        plain = idna.uts46_remap(host, std3_rules=False, transitional=False)
        return plain if plain.isascii() else idna.encode(plain, strict=True).decode("ascii")
    except (UnicodeError, IndexError):
        return ""
