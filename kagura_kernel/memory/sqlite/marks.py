"""The terms of the index that are no words: whom a memory concerns, what it is, who speaks, and when.

Each begins with a character for private use, so that no word of a text is ever one of them.
"""

from __future__ import annotations

from hashlib import blake2b

from kagura_kernel.domain.memory import NOTE, Memory
from kagura_kernel.memory.dates import marks_of
from kagura_kernel.memory.folding import fold
from kagura_kernel.memory.turns import sounds_spoken, speaker_in
from kagura_kernel.memory.words import index_terms

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
    speaker, said = (memory.speaker, memory.text) if memory.speaker else speaker_in(memory.text)
    if memory.speaker:
        named, rest = speaker_in(memory.text)
        said = rest if named == memory.speaker else said
    words = index_terms(said.translate(_PRIVATE))
    # A summary is nearly always the text's beginning; its words must not count twice.
    known = set(words)
    beside = " ".join((memory.summary, *memory.tags)).translate(_PRIVATE)
    words += [word for word in index_terms(beside) if word not in known]
    names = [speaker_mark(word) for word in set(index_terms(fold(speaker)))]
    marks = [
        facet_mark("scope", memory.scope),
        facet_mark("type", memory.type),
        facet_mark("tier", memory.tier.value),
        *(facet_mark("tag", tag) for tag in memory.tags),
        *(date_mark(mark) for mark in marks_of(memory.at)),
        *names,
    ]
    return " ".join((*_counted(words), *marks)), len(words)


def is_turn(memory: Memory) -> bool:
    """Whether it is one turn of a conversation, so that its neighbours speak of the same."""
    if memory.thread or memory.speaker or speaker_in(memory.text)[0]:
        return True
    # Words alone are joined only where nobody said that they are something else than a note.
    return memory.type == NOTE and sounds_spoken(memory.text)


def _counted(words: list[str]) -> list[str]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    terms = list(counts)
    terms += [word + OFTEN for word, count in counts.items() if count >= TWICE]
    terms += [word + VERY_OFTEN for word, count in counts.items() if count >= FOUR_TIMES]
    return terms
