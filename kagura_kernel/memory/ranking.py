"""How well memories fit a question: a sum over its words, of the memory itself, its neighbours and its session."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kagura_kernel.domain.memory import Memory
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


NEIGHBOUR = "neighbour"
MEANING = "meaning"
LEAST_SIMILAR = 0.2
"""A cosine below this says nothing."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much; found on the tuning half of the benchmark's questions."""

    saturation: float = 1.0  # How soon a word's repetition stops counting (k1 of BM25)
    length: float = 0.15  # How much a long text is held against its words (b of BM25)
    previous: float = 0.5  # What a word in the turn before, and after, counts beside one in the turn itself
    after: float = 0.1
    before_previous: float = 0.1  # Likewise for the turn before the one before
    note: float = 0.02  # What those count where the two are not turns of a conversation
    session: float = 0.2  # What a word anywhere in the same session counts
    coverage: float = 0.5  # What it adds that a memory has all words of the question rather than one again and again
    importance: float = 0.02  # The most that these add, as parts of the score; they break ties
    feedback: float = 0.06
    age: float = 0.005
    speaker: float = 1.0  # What a word counts that is the speaker's name, beside one in the text
    mention: float = 0.2  # What a word counts in the text that is some speaker's name: mostly it says who is spoken to
    date: float = 1.0  # What the date of a memory counts
    dated: float = 0.5  # What a word of the question counts that belongs to a date
    meaning: float = 0.4  # The part of the score that comes from meaning, where there is a model for it


@dataclass(frozen=True, slots=True)
class Wanted:
    """One word of a question and where it was found."""

    label: str  # What `why` says
    worth: float  # How much it tells: its rarity times its weight
    rows: Mapping[int, float]  # Numbers of memories and how often it is in each
    # Whether it counts for the neighbours of those too: what was said does, and who said it does not
    spreads: bool = True


@dataclass(frozen=True, slots=True)
class Place:
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


def rank(wanted: Sequence[Wanted], places: Mapping[int, Place], weights: Weights) -> list[Scored]:
    """The memories in the order of their fit, the best first; those that nothing matches are left out."""
    if not places:
        return []
    ranking = _Ranking(wanted, places, weights)
    scored = [found for place in places.values() if (found := ranking.score(place)) is not None]
    scored.sort(key=lambda found: (-found.score, -places[found.number].at, -found.number))
    return scored


class _Ranking:
    def __init__(self, wanted: Sequence[Wanted], places: Mapping[int, Place], weights: Weights) -> None:
        self._places = places
        self._weights = weights
        self._length = max(8.0, sum(place.length for place in places.values()) / len(places))
        moments = [place.at for place in places.values()]
        self._oldest, self._span = min(moments), max(1, max(moments) - min(moments))
        self._total = sum(word.worth for word in wanted) or 1.0
        most = weights.saturation + 1 + weights.session + weights.coverage
        self._most = self._total * most * (1 + weights.importance + weights.feedback + weights.age)
        self._own: dict[int, list[tuple[float, str]]] = {}
        self._near: dict[int, float] = {}
        self._covered: dict[int, float] = {}
        self._sessions: dict[int, float] = {}
        for word in wanted:
            self._spread(word)

    def score(self, place: Place) -> Scored | None:
        weights = self._weights
        parts = self._own.get(place.number, [])
        near = self._near.get(place.number, 0.0)
        if not parts and not (place.turn and near):
            return None
        own = sum(worth for worth, _ in parts)
        covered = self._covered.get(place.number, 0.0)
        fit = own + near + weights.coverage * covered * covered / self._total
        if place.turn:
            fit += weights.session * self._sessions.get(place.session, 0.0)
        if near > own:
            parts = [*parts, (near, NEIGHBOUR)]
        labels = (label for _, label in sorted(parts, key=lambda part: -part[0]))
        return Scored(place.number, min(1.0, fit * self._prior(place) / self._most), tuple(dict.fromkeys(labels)))

    def _spread(self, word: Wanted) -> None:
        """Give what a word is worth to the memories that have it, to their neighbours, and to their sessions."""
        own = {row: word.rows[row] for row in self._places.keys() & word.rows.keys()}
        sessions = set()
        for row, times in own.items():
            place = self._places[row]
            worth = word.worth * self._saturated(times, place)
            self._own.setdefault(row, []).append((worth, word.label))
            self._covered[row] = self._covered.get(row, 0.0) + word.worth
            sessions.add(place.session)
        if not word.spreads:
            return
        for row, times in self._around(own).items():
            place, held = self._places[row], own.get(row, 0.0)
            more = self._saturated(held + times, place) - self._saturated(held, place)
            self._near[row] = self._near.get(row, 0.0) + word.worth * more
        for session in sessions:
            self._sessions[session] = self._sessions.get(session, 0.0) + word.worth

    def _around(self, own: Mapping[int, float]) -> dict[int, float]:
        """How often a word is in the neighbours of memories, by how much they count there."""
        weights = self._weights
        times: dict[int, float] = {}
        for row, held in own.items():
            place = self._places[row]
            share = held if place.turn else held * weights.note
            following = self._places.get(place.after)
            beyond = following.after if following is not None else 0
            given = ((place.prev, weights.after), (place.after, weights.previous), (beyond, weights.before_previous))
            for other, part in given:
                if other in self._places:
                    times[other] = times.get(other, 0.0) + share * part
        return times

    def _saturated(self, times: float, place: Place) -> float:
        weights = self._weights
        longer = place.length / self._length - 1
        return times * (weights.saturation + 1) / (times + weights.saturation * (1 + weights.length * longer))

    def _prior(self, place: Place) -> float:
        weights = self._weights
        newer = (place.at - self._oldest) / self._span
        return (
            1
            + weights.importance * (2 * place.importance - 1)
            + weights.feedback * math.tanh(place.bias / 2)
            + weights.age * newer
        )


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
