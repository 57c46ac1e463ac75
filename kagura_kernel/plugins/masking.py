"""Configured values as they may be shown: what looks like a secret is masked. Pure, in linear time."""

from __future__ import annotations

import re

MASK = "***"
MAX_SHOWN = 500

_NAMED = re.compile(r"passw(or)?d|passphrase|secret|token|api_?key|access_?key|private_?key|credential", re.IGNORECASE)
_USER = re.compile(r"://[^/?#@:]*:")
_BLANKS = re.compile(r"(\s+)")
_PARAMETER = re.compile(
    r"([?&;\s](?:password|passwd|pwd|token|access_token|secret|sig|signature|key|api_?key)=)[^&;\s#]*", re.IGNORECASE
)


def masked(text: str) -> str:
    """The text without the passwords of the URLs and connection strings in it."""
    words = "".join(map(_without_password, _BLANKS.split(text)))
    return _PARAMETER.sub(rf"\g<1>{MASK}", words)


def _without_password(word: str) -> str:
    at = word.rfind("@")
    user = _USER.search(word, 0, max(at, 0))
    # To the last @: a password that was not escaped may hold any letter.
    return f"{word[: user.end()]}{MASK}{word[at:]}" if user else word


def masked_field(name: str, text: str) -> str:
    """The value of a field as it may be shown; wholly masked where the field's name says that it is a secret."""
    if text and _NAMED.search(name):
        return MASK
    told = masked(text)
    return told if len(told) <= MAX_SHOWN else f"{told[: MAX_SHOWN - 1]}…"
