"""Makes conversations, notes and questions of what the languages hold, the same in every process.

Four pairs of people talk over many dated sessions; every fact is told in three of the four conversations, by different
people, so that a question is answered by who said it as much as by what was said. The questions are a person's
paraphrases, and the answer is known because it was put there. No text was taken from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from random import Random

from kagura_kernel.domain.memory import Author, Draft, Source

LANGUAGES = ("English", "German", "Japanese")
KINDS = ("dialogue", "paraphrase", "date", "several", "note", "note paraphrase")
"""What is asked: for a turn in some of its words, or in others; for what somebody said in a month; for two turns; and
for a note, in some of its words or in others."""

_SOURCE = Source(Author.IMPORT, by="the corpus")
_BEGIN = datetime(2023, 1, 14, 13, 56, tzinfo=UTC)
_TOLD_IN = 3
_FACTS_A_SESSION = 2
_MONTHS_ASKED = 3


@dataclass(frozen=True, slots=True)
class Question:
    """One question with its known answer."""

    text: str  # As it is asked
    answers: tuple[str, ...]  # Ids of the memories that hold the answer
    language: str  # A key of `LANGUAGES`
    kind: str  # One of `KINDS`
    tuning: bool  # Whether weights may be tuned on it; the others are only for telling how good they are


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is to be remembered, in this order, and what is asked afterwards."""

    drafts: tuple[Draft, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class _Fact:
    number: int
    lead: str
    told: str
    reply: str
    question: str
    near: str


@dataclass(frozen=True, slots=True)
class _Language:
    """What a file says. In it `{A}` tells something to `{B}`."""

    name: str  # A member of `LANGUAGES`
    names: tuple[tuple[str, str], ...]  # Who talk to each other
    months: tuple[str, ...]  # Names of the twelve
    asked_month: str  # How one asks for what somebody said in a month, and for two things
    asked_both: str
    # What B says before, what A tells, how B answers, a question in other words, one in some of the same
    facts: tuple[_Fact, ...]
    chat: tuple[str, ...]  # What is said in between
    notes: tuple[str, ...]  # A note, a question in other words that it answers, and one in some of the same


def make_corpus(*, threads: bool = True) -> Corpus:
    """The whole corpus.

    Args:
        threads: Whether turns say their thread and speaker; without, they stand in order as `Name: words`.
    """
    drafts: list[Draft] = []
    questions: list[Question] = []
    for language in map(_read, LANGUAGES):
        pairs = len(language.names)
        for number in range(pairs):
            talk = _Talk(language, number, threads=threads)
            shared = {(number + step) % pairs for step in range(_TOLD_IN)}
            drafts += talk.turns([fact for fact in language.facts if fact.number % pairs in shared])
            questions += [*talk.questions, *talk.of_months(), *talk.of_two()]
        notes, asked = _notes(language)
        drafts += notes
        questions += asked
    return Corpus(tuple(drafts), tuple(questions))


class _Talk:
    """One conversation of two people."""

    def __init__(self, language: _Language, number: int, *, threads: bool) -> None:
        self.questions: list[Question] = []
        self._language = language
        self._number = number
        self._prefix = f"mem-{language.name.lower()}-talk{number}"
        self._names = language.names[number]
        self._threads = threads
        self._random = Random(f"{language.name}-{number}")
        self._turns = 0
        self._told: dict[tuple[str, int, int], list[str]] = {}

    def of_months(self) -> Iterator[Question]:
        """What somebody told in one month, of which there may be several things."""
        months = self._random.sample(sorted(self._told), _MONTHS_ASKED)
        for number, (teller, year, month) in enumerate(months):
            text = self._language.asked_month.format(A=teller, year=year, name=self._language.months[month - 1])
            answers = tuple(self._told[teller, year, month])
            yield Question(text, answers, self._language.name, "date", tuning=number % 2 == 0)

    def of_two(self) -> Iterator[Question]:
        """Two things at once, told in different sessions."""
        for number, tuning in enumerate((True, False)):
            some = [one for one in self.questions if one.kind == "dialogue" and one.tuning is tuning]
            one, other = self._random.sample(some, 2)
            text = self._language.asked_both.format(one=one.text.rstrip("?？"), other=other.text)
            yield Question(text, one.answers + other.answers, self._language.name, "several", tuning=number == 0)

    def turns(self, facts: Sequence[_Fact]) -> Iterator[Draft]:
        shuffled = self._random.sample(facts, len(facts))
        at = _BEGIN + timedelta(days=self._random.randrange(60))
        for start in range(0, len(shuffled), _FACTS_A_SESSION):
            yield from self._session(shuffled[start : start + _FACTS_A_SESSION], at)
            at += timedelta(days=self._random.randrange(6, 25), hours=self._random.randrange(-4, 5))

    def _session(self, facts: Sequence[_Fact], at: datetime) -> Iterator[Draft]:
        first, second = self._names if self._random.random() < 0.5 else self._names[::-1]
        yield from self._small_talk(first, second, at, self._random.randrange(2, 5))
        for fact in facts:
            teller, other = self._names if (fact.number // 4 + self._number) % 2 else self._names[::-1]
            yield self._turn(other, teller, fact.lead, at)
            told = self._turn(teller, other, fact.told, at)
            self._told.setdefault((teller, at.year, at.month), []).append(told.id)
            yield told
            yield self._turn(other, teller, fact.reply, at)
            self._ask(fact.question.replace("{A}", teller), (told.id,), "paraphrase", fact.number)
            self._ask(fact.near.replace("{A}", teller), (told.id,), "dialogue", fact.number)
            yield from self._small_talk(teller, other, at, self._random.randrange(1, 4))

    def _small_talk(self, first: str, second: str, at: datetime, turns: int) -> Iterator[Draft]:
        for number in range(turns):
            speaker, other = (first, second) if number % 2 == 0 else (second, first)
            yield self._turn(speaker, other, self._random.choice(self._language.chat), at)

    def _turn(self, speaker: str, other: str, text: str, at: datetime) -> Draft:
        self._turns += 1
        said = text.replace("{A}", other).replace("{B}", other)
        number = f"{self._prefix}-{self._turns}"
        if self._threads:
            return Draft(said, _SOURCE, thread=self._prefix, speaker=speaker, at=at, id=number)
        return Draft(f"{speaker}: {said}", _SOURCE, at=at, id=number)

    def _ask(self, text: str, answers: tuple[str, ...], kind: str, number: int) -> None:
        self.questions.append(Question(text, answers, self._language.name, kind, tuning=number % 2 == 0))


def _notes(language: _Language) -> tuple[list[Draft], list[Question]]:
    drafts, questions = [], []
    for number, line in enumerate(language.notes):
        text, paraphrase, near = line.split("|")
        id_ = f"mem-{language.name.lower()}-note-{number}"
        drafts.append(Draft(text, _SOURCE, at=_BEGIN + timedelta(days=11 * number), id=id_))
        for asked, kind in ((paraphrase, "note paraphrase"), (near, "note")):
            questions.append(Question(asked, (id_,), language.name, kind, tuning=number % 2 == 0))
    return drafts, questions


def _read(name: str) -> _Language:
    sections: dict[str, list[str]] = {}
    for line in (resources.files(__package__) / f"{name.lower()}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            lines = sections.setdefault(line.strip("[]"), [])
        elif line:
            lines.append(line)
    names = [line.split("|") for line in sections["names"]]
    return _Language(
        name,
        tuple((one, other) for one, other in names),
        tuple(sections["months"][0].split("|")),
        sections["month"][0],
        sections["both"][0],
        tuple(_Fact(number, *line.split("|")) for number, line in enumerate(sections["facts"])),
        tuple(sections["chat"]),
        tuple(sections["notes"]),
    )
