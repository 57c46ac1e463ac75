"""Memories as rows, and the terms of the index that are no words but say whom a memory concerns and what it is.

Each such term begins with a character for private use, so that no word of a text is ever one of them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from kagura_kernel.domain.memory import NOTE, Author, Memory, Source, Tier
from kagura_kernel.memory.words import ascii_words, fold, index_terms, marks_of

COLUMNS = (
    "id, text, author, by_name, run_id, uri, tier, type, summary, tags, importance, scope, thread, speaker, at,"
    " created_at, expires_at, pinned, data, promoted_by, helped, misled, forgotten_at"
)
INSERT = f"INSERT INTO memory (n, {COLUMNS}) VALUES ({', '.join('?' * 24)})"  # noqa: S608 - no value is in it

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """An aware moment as a number."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(number: int) -> datetime:
    """The moment that a number stands for, in UTC."""
    return _EPOCH + number * _MICROSECOND


def as_json(tags: Sequence[str]) -> str:
    """Tags as a column holds them."""
    return json.dumps(tags) if tags else "[]"


def row_of(number: int, memory: Memory) -> tuple[Any, ...]:
    """What `INSERT` takes."""
    source = memory.source
    return (
        number,
        memory.id,
        memory.text,
        str(source.author),
        source.by,
        source.run_id,
        source.uri,
        str(memory.tier),
        memory.type,
        memory.summary,
        as_json(memory.tags),
        memory.importance,
        memory.scope,
        memory.thread,
        memory.speaker,
        micros(memory.at),
        micros(memory.created_at),
        _micros_or_none(memory.expires_at),
        int(memory.pinned),
        json.dumps(dict(memory.data), ensure_ascii=False) if memory.data else "{}",
        memory.promoted_by,
        memory.helped,
        memory.misled,
        _micros_or_none(memory.forgotten_at),
    )


def memory_of_row(row: Iterable[Any]) -> Memory:
    """The memory whose `COLUMNS` these are."""
    (id_, text, author, by_name, run_id, uri, tier, type_, summary, tags, importance, scope, thread, speaker, *rest) = (
        row
    )
    at, created_at, expires_at, pinned, data, promoted_by, helped, misled, forgotten_at = rest
    return Memory(
        id=id_,
        text=text,
        source=Source(Author(author), by_name, run_id, uri),
        tier=Tier(tier),
        type=type_,
        summary=summary,
        tags=tuple(json.loads(tags)),
        importance=importance,
        scope=scope,
        thread=thread,
        speaker=speaker,
        at=moment(at),
        created_at=moment(created_at),
        expires_at=_moment_or_none(expires_at),
        pinned=bool(pinned),
        data=json.loads(data),
        promoted_by=promoted_by,
        helped=helped,
        misled=misled,
        forgotten_at=_moment_or_none(forgotten_at),
    )


def _micros_or_none(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _moment_or_none(number: int | None) -> datetime | None:
    return None if number is None else moment(number)


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
_PERSONS_WORDS = "i me my mine you your yours we our ich mir mich du dir dich wir"
_PERSONS = frozenset(_PERSONS_WORDS.split())
_POSSESSIVES = ("mein", "dein", "unser")


def speaker_in(text: str) -> tuple[str, str]:
    """Who speaks and what is said, of `Caroline: I went …`; no name and the whole text where nobody is named.

    When it was said, or the number of the turn, may stand before the name or after it.
    """
    # Without one of these there is no name before what is said, and the pattern takes long to find that out.
    if ":" not in text and "," not in text and "：" not in text:
        return "", text
    found = _SPOKEN.match(text)
    if found is None or not _is_name(found[1]):
        return "", text
    return found[1], text[found.end() :]


def sounds_spoken(text: str) -> bool:
    """Whether somebody speaks of themselves or to another in it, as in nearly all turns and in few notes."""
    return _may_address(text) and _ADDRESSES.search(text) is not None


def _may_address(text: str) -> bool:
    """Whether the pattern, which takes many times as long, could find anything."""
    if not text.isascii() or "?" in text or "!" in text:
        return True
    folded = text.lower()
    return not _PERSONS.isdisjoint(ascii_words(folded)) or any(word in folded for word in _POSSESSIVES)


def _is_name(text: str) -> bool:
    first = text.split(maxsplit=1)[0].lower()
    return first not in _LABELS and (text[0].isupper() or not text[0].isascii() or text in _ROLES)


_FACET, _SPEAKER, _DATE, OFTEN, VERY_OFTEN = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
"""`OFTEN` and `VERY_OFTEN` end the terms that stand for a word that is in a text at least twice, and four times."""

TWICE, FOUR_TIMES = 2, 4
_PRIVATE = dict.fromkeys(range(57344, 57360), " ")


def facet_mark(kind: str, value: str) -> str:
    """The term of a scope, a type, a tag or a tier."""
    return f"{_FACET}{kind}{blake2b(value.encode(), digest_size=6).hexdigest()}"


def speaker_mark(name: str) -> str:
    """The term of one word of a speaker's name, folded."""
    return f"{_SPEAKER}{name}"


def date_mark(mark: str) -> str:
    """The term of a mark of `dates`."""
    return f"{_DATE}{mark}"


def indexed(memory: Memory) -> tuple[str, int]:
    """What the index holds of a memory, and how many words that are of its text."""
    speaker, said = memory.speaker, memory.text
    if not speaker:
        speaker, said = speaker_in(said)
    elif speaker in said:
        named, rest = speaker_in(said)
        said = rest if named == speaker else said
    words = index_terms(_without_private(said))
    # A summary is nearly always the text's beginning; its words must not count twice.
    begun = said is memory.text and said.startswith(memory.summary.removesuffix("…"))
    if memory.tags or not begun:
        known = set(words)
        beside = " ".join(memory.tags if begun else (memory.summary, *memory.tags))
        words += [word for word in index_terms(_without_private(beside)) if word not in known]
    marks = (
        _kind_marks(memory.scope, memory.type, str(memory.tier)),
        *(facet_mark("tag", tag) for tag in memory.tags),
        _day_marks(memory.at.date()),
        _name_marks(speaker),
    )
    return " ".join((*_counted(words), *marks)), len(words)


def _without_private(text: str) -> str:
    return text if text.isascii() else text.translate(_PRIVATE)


@lru_cache(maxsize=1 << 10)
def _kind_marks(scope: str, type_: str, tier: str) -> str:
    return " ".join((facet_mark("scope", scope), facet_mark("type", type_), facet_mark("tier", tier)))


@lru_cache(maxsize=1 << 10)
def _day_marks(day: date) -> str:
    return " ".join(map(date_mark, marks_of(day)))


@lru_cache(maxsize=1 << 10)
def _name_marks(speaker: str) -> str:
    return " ".join(speaker_mark(word) for word in dict.fromkeys(index_terms(fold(speaker))))


def is_turn(memory: Memory) -> bool:
    """Whether it is one turn of a conversation, so that its neighbours speak of the same."""
    if memory.thread or memory.speaker or speaker_in(memory.text)[0]:
        return True
    # Words alone are joined only where nobody said that they are something else than a note.
    return memory.type == NOTE and sounds_spoken(memory.text)


def _counted(words: list[str]) -> list[str]:
    once: dict[str, None] = {}
    again: list[str] = []
    for word in words:
        if word in once:
            again.append(word)
        else:
            once[word] = None
    if not again:
        return words
    counts = Counter(again)
    often = [word + VERY_OFTEN for word, more in counts.items() if more >= FOUR_TIMES - 1]
    return [*once, *[word + OFTEN for word in counts], *often]
