"""What speaks against a secret where it was found: it stands between two texts, in a selector, behind a hash's name."""

from __future__ import annotations

import re

from kagura_kernel.kit.redaction.regions import line_start
from kagura_kernel.kit.redaction.shapes import expression, openly
from kagura_kernel.kit.redaction.spans import Span

_DOUBTED = frozenset(
    {"password", "secret", "token", "api-key", "session", "private-key", "command-password", "connection-string"}
)
"""Kinds that a word nearby gave away; what says itself that it is a secret needs no doubts."""
_REACH = 2000
_QUOTES = b"\"'`"
_OPENS = rb"(?<![0-9A-Za-z\\])[bBrRuUfFN]{0,2}"
CLOSED = re.compile(_OPENS + rb"(?:\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|`[^`\n]*+`)")
_JOINED = re.compile(
    rb"(?:[!=]==?|\|\||&&|\)[).,;:\]]|[+,?:\]])[^\"'`]*?(?:[(=|&,+:?\[{]|\b(?:in|return|case|typeof) ?)"
)
"""What a program has between two texts."""
_DIGEST = re.compile(
    rb"(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{56}|[0-9a-fA-F]{64}|[0-9a-fA-F]{96}|[0-9a-fA-F]{128})"
)
_OF_A_FILE = re.compile(
    rb"(?i)(?<!hmac-)(?<!hmac)(?<!hmac_)\b(?:sha-?\d{1,3}(?:sum)?|sha3[-_]\d{3}|md5(?:sum)?|blake\w{1,3}|check-?sums?|digests?|hash(?:es)?|finger-?prints?|thumbprint|e-?tag|integrity|commits?|revision|sri|crc\d*)\b|-hash\b|_hash\b"
)
_CACHED = re.compile(rb"(?i)\b(?:cache[ds]?|restored?|saved?|hit|miss)\b")
_CACHE_KEY = re.compile(rb"(?:[\w.]+[-:/|@])+[0-9a-zA-Z]+")
_KEY_ID = re.compile(rb"(?:0x)?(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40})!?")
_OF_PGP = re.compile(
    rb"(?i)(?:gpg|gnupg|pgp|signing[-_ ]?key\b|recv-keys?|key-?id|key_id|default-key|trusted-key|local-user)"
)
_COMPARED = re.compile(rb"[=!]==?[ \t]*\Z")
_PSEUDO = re.compile(
    rb":?(?:hover|focus|focus-within|focus-visible|active|visited|link|before|after|first-child|last-child|first-of-type|last-of-type|nth-[a-z-]+|not|is|where|has|host|root|target|empty|disabled|enabled|checked|"
    rb"required|optional|valid|invalid|placeholder|placeholder-shown|selection|autofill|read-only|-webkit-[a-z-]+|-moz-[a-z-]+|-ms-[a-z-]+)(?:[{,:.(\[>~+#\s].*|)",
    re.DOTALL,
)
_CUT_SHORT = 16
"""Bytes of a beginning that is shown with an ellipsis."""
_CALLED = re.compile(rb"_*[a-z][a-z0-9]*_[a-z0-9_]+")
_OF_TWO = re.compile(rb"\A[ \t]*\*?[A-Za-z_]\w*[ \t]*,[ \t]*[A-Za-z_]\w*[ \t]*=[ \t]*[bBrRuU]?[\"']\Z")
_NEXT_TEXT = re.compile(rb"[\"'][ \t]*,[ \t]*[bBrRuU]?[\"']")
"""Of two names with two values the first value is of the first name."""
_NEAR = 100
_UNSET = re.compile(rb"\$\{\w+(?:\[[^\]\n]*\])?:?\Z")


def doubted(data: bytes, span: Span) -> bool:
    """Whether what stands there is no secret after all, by its form and by what is around it."""
    if span.kind not in _DOUBTED:
        return False
    value = data[span.start : span.end]
    quoted = data[span.start - 1 : span.start] in {b'"', b"'", b"`"} and span.start > 0
    if openly(value) or (not quoted and expression(value)):
        return True
    if len(value) < _CUT_SHORT and data.startswith((b"...", b"\xe2\x80\xa6"), span.end):
        return True
    if not quoted and _CALLED.fullmatch(value) and data[span.end : span.end + 20].lstrip(b" \t")[:1] == b"(":
        return True
    if data[max(0, span.start - 11) : span.start] == b".svg?token=":
        return True
    begin = line_start(data, span.start, _REACH)
    before = data[begin : span.start]
    return (
        (quoted and _between_texts(data, begin, span))
        or (quoted and _OF_TWO.search(before) is not None and _NEXT_TEXT.match(data, span.end) is not None)
        or (not quoted and _COMPARED.search(before) is not None)
        or (before[-1:] == b":" and _PSEUDO.fullmatch(value) is not None)
        or (value[:1] == b"?" and _UNSET.search(before) is not None)
        or _digest(data, begin, before, value)
        or (_KEY_ID.fullmatch(value) is not None and _OF_PGP.search(before[-_NEAR:]) is not None)
        or (_CACHE_KEY.fullmatch(value) is not None and _CACHED.search(before) is not None)
    )


def named_openly(data: bytes, span: Span) -> bool:
    """Whether the name right before a value of a known format says that everybody may see it."""
    return _OPEN_NAME.search(data[max(0, span.start - _NEAR) : span.start]) is not None


_OPEN_NAME = re.compile(
    rb"(?i)(?:site_?-?key|(?:public|publishable|client)_?-?key|client_?-?id|app(?:lication)?_?-?id|check-?sum|digest|commit|revision|e-?tag|finger-?print|sha-?(?:1|256|512)|integrity)[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?\Z"
)


def _between_texts(data: bytes, begin: int, span: Span) -> bool:
    """Whether the quote before it ends a text, so that it stands in none: `get("Password")).to("type")`."""
    if _JOINED.fullmatch(data, span.start, span.end) is not None:
        return True
    end = data.find(b"\n", span.end, span.end + _REACH)
    end = min(end if end >= 0 else len(data), span.end + _REACH)
    # With an odd number of them, or on an endless line, a text may have begun before.
    if span.start - begin >= _REACH or data.count(data[span.start - 1 : span.start], begin, end) % 2:
        return False
    return any(found.end() == span.start for found in CLOSED.finditer(data, begin, span.start))


def within_text(data: bytes, at: int) -> bool:
    """Whether the text that begins there stands in a longer one, as in `x="a ? 'b' : 'c'" y="d"`."""
    begin = line_start(data, at, _REACH)
    if at - begin >= _REACH:
        return False
    end = data.find(b"\n", at, at + _REACH)
    found = CLOSED.finditer(data, begin, end if end >= 0 else min(len(data), at + _REACH))
    return any(one.start() < at - 2 and at < one.end() for one in found)


def _digest(data: bytes, begin: int, before: bytes, value: bytes) -> bool:
    """Whether this is the checksum of something, which the line says, or the one above it."""
    if _DIGEST.fullmatch(value) is None:
        return False
    if not before.strip(b" \t\"'`*>|-"):
        above = data.rfind(b"\n", max(0, begin - _REACH), max(0, begin - 1)) + 1
        before = data[above:begin]
    return _OF_A_FILE.search(before) is not None
