"""Which texts are turns of a conversation, and who speaks in one, where the text itself says so."""

from __future__ import annotations

import re

_BRACKETED = r"[\[(][^\])\n]{0,60}[\])]"
_STAMP = r"[A-Z]?\d[\w:./,+\-]*"
_BEFORE = rf"\s*(?:[-*•>]\s+)?(?:{_BRACKETED}\s*|{_STAMP}\s+(?:[-–—]\s+)?){{0,3}}"
_NAME = r"[^\W\d_][^\W_]*(?:[ .'\-]{1,2}[^\W_]+){0,2}?"
_SAYS = r"(?:said|says|asked|asks|replied|replies|wrote|writes|sagte?|fragte?|schrieb|schreibt)\b\s*[,:]"
_AFTER = rf"\*{{0,2}}\s*(?:{_BRACKETED}\s*)?(?::\*{{0,2}}(?=\s|[\"„“])|：|{_SAYS})\s*"
_SPOKEN = re.compile(rf"{_BEFORE}\*{{0,2}}({_NAME}){_AFTER}")
_LABELS_WORDS = """
note notes fix todo lesson warning error task decision outcome question answer summary date session title
topic cause reason result update status problem solution incident example hint info debug step context goal
user's ursache notiz hinweis fehler lösung aufgabe ergebnis frage antwort datum
原因 対応 対策 結果 注意 メモ 件名 日時 概要 課題
"""
_LABELS = frozenset(_LABELS_WORDS.split())
_ROLES = frozenset({"user", "assistant", "human"})
_ADDRESSES = re.compile(
    r"\b(?:i|me|my|mine|you|your|yours|we|our|ich|mir|mich|mein\w{0,2}|du|dir|dich|dein\w{0,2}|wir|unser\w{0,2})\b"
    r"|[?!？！]|[ねよか]。|私|僕|俺|あなた",
    re.IGNORECASE,
)


def speaker_in(text: str) -> tuple[str, str]:
    """Who speaks and what is said, of `Caroline: I went …`; no name and the whole text where nobody is named.

    When it was said, or the number of the turn, may stand before the name or after it.
    """
    found = _SPOKEN.match(text)
    if found is None or not _is_name(found[1]):
        return "", text
    return found[1], text[found.end() :]


def sounds_spoken(text: str) -> bool:
    """Whether somebody speaks of themselves or to another in it, as in nearly all turns and in few notes."""
    return _ADDRESSES.search(text) is not None


def _is_name(text: str) -> bool:
    first = text.split(maxsplit=1)[0].lower()
    return first not in _LABELS and (text[0].isupper() or not text[0].isascii() or text in _ROLES)
