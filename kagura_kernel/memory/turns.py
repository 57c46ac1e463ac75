"""Who speaks in a text that is one turn of a conversation, where the text itself says so."""

from __future__ import annotations

import re

_MARKED_TIME = r"(?:\s*[\[(][^\])\n]{0,60}[\])]\s*)?"
_NAME = r"[^\W\d_][^\W_]*(?:[ .'\-]{1,2}[^\W_]+){0,2}"
_SPOKEN = re.compile(rf"{_MARKED_TIME}\s*({_NAME})\s*(?::(?=\s|[\"„“])|：|\bsaid\b\s*[,:])\s*")
_LABELS_WORDS = """
note notes fix todo lesson warning error task decision outcome question answer summary date session title
topic cause reason result update status problem solution incident example hint info debug step context goal
user's ursache notiz hinweis fehler lösung aufgabe ergebnis frage antwort datum
原因 対応 対策 結果 注意 メモ 件名 日時 概要 課題
"""
_LABELS = frozenset(_LABELS_WORDS.split())


def speaker_in(text: str) -> tuple[str, str]:
    """Who speaks and what is said, of `Caroline: I went …`; no name and the whole text where nobody is named."""
    found = _SPOKEN.match(text)
    if found is None or not _is_name(found[1]):
        return "", text
    return found[1], text[found.end() :]


def _is_name(text: str) -> bool:
    return text.split(maxsplit=1)[0].lower() not in _LABELS and (text[0].isupper() or not text[0].isascii())
