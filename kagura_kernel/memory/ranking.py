"""How well memories fit a question: a sum over its words, of the memory itself, its neighbours and its session."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.memory import Memory, Query
from kagura_kernel.memory.words import Term, index_terms, query_terms

LEAST_SHARED = 0.25
"""What part of the telling words of one of the two has to be in the other."""
LEAST_WORDS = 2
"""How many words they share; one says little, unless it is `HALF` of what was asked."""
HALF = 0.5
LONGEST = 4_000
"""Characters of each that are compared."""


def has_to_do_with(question: str, memory: Memory) -> bool:
    """Whether enough of the words of one are in the other, whatever their endings."""
    asked = query_terms(question[:LONGEST])
    said = " ".join((memory.text[:LONGEST], memory.summary, memory.speaker, *memory.tags))
    shared, part = _shared(asked, said)
    if shared < LEAST_WORDS and part < HALF:
        return False
    return part >= LEAST_SHARED or _shared(query_terms(said), question[:LONGEST])[1] >= LEAST_SHARED


def _shared(terms: list[Term], text: str) -> tuple[int, float]:
    """How many of these words are in a text, and what part of their weight that is."""
    forms = set(index_terms(text))
    found = [term for term in terms if forms.intersection(term.forms)]
    whole = sum(term.weight for term in terms)
    return len(found), sum(term.weight for term in found) / whole if whole else 0.0


def asked_tags(query: Query, memory: Memory) -> tuple[str, ...]:
    """What matched of the tags that a question names."""
    return tuple(f"tag: {tag}" for tag in query.tags if tag in memory.tags)


NEIGHBOUR = "neighbour"
MEANING = "meaning"
LEAST_SIMILAR = 0.2
"""A cosine below this says nothing."""


LONG_ENOUGH = 40
"""A turn of so many words is never held to be short."""


class Weights:
    """What counts how much; found on the tuning half of the benchmark's questions."""

    saturation = 1.0  # How soon a word's repetition stops counting (k1 of BM25)
    length = 0.05  # How much a long text is held against its words (b of BM25)
    previous = 0.6  # What a word in the turn before, and after, counts beside one in the turn itself
    after = 0.1
    before_previous = 0.1  # Likewise for the turn before the one before
    note = 0.02  # What those count where the two are not turns of a conversation
    session = 0.2  # What a word anywhere in the same session counts
    coverage = 0.5  # What it adds that a memory has all words of the question rather than one again and again
    importance = 0.02  # The most that these add, as parts of the score; they break ties
    feedback = 0.06
    age = 0.005
    # What it adds, as a part of the score, that a turn is no shorter than most: few answers are a word or two
    substance = 0.4
    speaker = 2.5  # What a word counts that is the speaker's name, beside one in the text
    mention = 0.2  # What a word counts in the text that is some speaker's name: mostly it says who is spoken to
    date = 2.5  # What the date of a memory counts
    dated = 0.5  # What a word of the question counts that belongs to a date
    meaning = 0.4  # The part of the score that comes from meaning, where there is a model for it


@dataclass(frozen=True, slots=True)
class Wanted:
    """One word of a question and where it was found."""

    label: str  # What `why` says
    worth: float  # How much it tells: its rarity times its weight
    rows: Mapping[int, float]  # Numbers of memories and how often it is in each
    # Whether it counts for the neighbours of those too: what was said does, and who said it does not
    spreads: bool = True


class Place(NamedTuple):
    """What ranking has to know of a memory."""

    number: int  # The row that it is
    prev: int  # Its neighbours' rows, 0 for none
    after: int
    session: int  # The same for all turns of one
    turn: bool  # Whether it is one of a conversation
    length: int  # Words
    at: int  # When it happened, in microseconds
    importance: float
    bias: int  # How much more often it helped than misled


@dataclass(frozen=True, slots=True)
class Scored:
    """A memory's place in the answer: its row, its score between 0 and 1, and what matched."""

    number: int
    score: float
    why: tuple[str, ...]


def rarity(rows: int, found: int) -> float:
    """How much a word tells that is in `found` of `rows` memories."""
    return math.log(1 + (max(rows, found) - found + 0.5) / (found + 0.5))


def rank(wanted: Sequence[Wanted], places: Mapping[int, Place], most: int | None = None) -> list[Scored]:
    """The memories in the order of their fit, the best `most` first; those that nothing matches are left out."""
    if not places:
        return []
    return _Ranking(wanted, places).best(most)


class _Ranking:
    def __init__(self, wanted: Sequence[Wanted], places: Mapping[int, Place]) -> None:
        self._wanted = wanted
        self._places = places
        mean = max(8.0, sum(place.length for place in places.values()) / len(places))
        self._enough = min(mean, LONG_ENOUGH)
        soon, longer = Weights.saturation, Weights.length
        # How many times a word has to be in each memory to count half of what it can.
        self._half = {row: soon * (1 + longer * (place.length / mean - 1)) for row, place in places.items()}
        self._total = sum(word.worth for word in wanted) or 1.0
        self._own: defaultdict[int, float] = defaultdict(float)
        self._near: defaultdict[int, float] = defaultdict(float)
        self._covered: defaultdict[int, float] = defaultdict(float)
        self._sessions: defaultdict[int, float] = defaultdict(float)
        for word in wanted:
            self._spread(word)

    def best(self, most: int | None) -> list[Scored]:
        """The memories that something matches, in their order."""
        places, own, near = self._places, self._own, self._near
        moments = [place.at for place in places.values()]
        oldest, span = min(moments), max(1, max(moments) - min(moments))
        sums = Weights.saturation + 1 + Weights.session + Weights.coverage
        highest = self._total * sums * (1 + Weights.importance + Weights.feedback + Weights.age + Weights.substance)
        scored = []
        for row in own.keys() | near.keys():
            place = places[row]
            if row not in own and not place.turn:
                continue
            covered = self._covered.get(row, 0.0)
            fit = own.get(row, 0.0) + near.get(row, 0.0) + Weights.coverage * covered * covered / self._total
            if place.turn:
                fit += Weights.session * self._sessions.get(place.session, 0.0)
            prior = 1 + Weights.importance * (2 * place.importance - 1) + Weights.age * (place.at - oldest) / span
            prior += Weights.substance * (min(1.0, place.length / self._enough) if place.turn else 1.0)
            if place.bias:
                prior += Weights.feedback * math.tanh(place.bias / 2)
            scored.append((fit * prior, place.at, row))
        scored.sort(reverse=True)
        return [Scored(row, min(1.0, score / highest), self._why(row)) for score, _, row in scored[:most]]

    def _why(self, row: int) -> tuple[str, ...]:
        half = self._half[row]
        held = [(word, word.rows[row]) for word in self._wanted if row in word.rows]
        parts = [(word.worth * times / (times + half), word) for word, times in held]
        labels = [(worth, word.label) for worth, word in parts]
        near = self._near.get(row, 0.0) / (Weights.saturation + 1)
        # Who speaks, and when, is not what is said, so that it hides no neighbour.
        if near > sum(worth for worth, word in parts if word.spreads):
            labels.append((near, NEIGHBOUR))
        return tuple(dict.fromkeys(label for _, label in sorted(labels, key=lambda part: -part[0])))

    def _spread(self, word: Wanted) -> None:
        """Give what a word is worth to the memories that have it, to their neighbours, and to their sessions."""
        own = {row: word.rows[row] for row in self._places.keys() & word.rows.keys()}
        worth = word.worth * (Weights.saturation + 1)
        for row, times in own.items():
            self._own[row] += worth * times / (times + self._half[row])
            self._covered[row] += word.worth
        if not word.spreads:
            return
        for row, times in self._around(own).items():
            held, half = own.get(row, 0.0), self._half[row]
            more = held + times
            self._near[row] += worth * (more / (more + half) - held / (held + half))
        for session in {self._places[row].session for row in own}:
            self._sessions[session] += word.worth

    def _around(self, own: Mapping[int, float]) -> dict[int, float]:
        """How often a word is in the neighbours of memories, by how much they count there."""
        places = self._places
        times: defaultdict[int, float] = defaultdict(float)
        for row, held in own.items():
            place = places[row]
            share = held if place.turn else held * Weights.note
            if place.prev in places:
                times[place.prev] += share * Weights.after
            following = places.get(place.after)
            if following is not None:
                times[place.after] += share * Weights.previous
                if following.after in places:
                    times[following.after] += share * Weights.before_previous
        return times


def fused(lexical: Iterable[Scored], similar: Mapping[int, float], meaning: float) -> list[Scored]:
    """Both orders in one: each is stretched to 0 … 1 first; `meaning` is the part of the second.

    What no word and no meaning of at least `LEAST_SIMILAR` speaks for is left out.
    """
    words = {found.number: found for found in lexical}
    if not similar:
        return list(words.values())
    top = max((found.score for found in words.values()), default=0.0) or 1.0
    low = max(LEAST_SIMILAR, min(similar.values()))
    span = max(max(similar.values()) - low, 1e-6)
    joined = []
    for number in words.keys() | similar.keys():
        found, likeness = words.get(number), similar.get(number, 0.0)
        if found is None and likeness < LEAST_SIMILAR:
            continue
        near = min(1.0, max(0.0, (likeness - low) / span))
        said = found.score / top if found else 0.0
        why = (*(found.why if found else ()), *((MEANING,) if near > said or found is None else ()))
        joined.append(Scored(number, (1 - meaning) * said + meaning * near, why))
    joined.sort(key=lambda found: (-found.score, -found.number))
    return joined
