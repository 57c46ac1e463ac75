"""Lessons, which of them a task should know of, and which runs were about the like of a task.

A lesson is a memory of type `lesson`. Its id is a hash of its scope and its trigger, so that the same failure in the
like of a task is the same lesson; each run that it happened in is one edge more, `prevents`, to the summary of that
run. What mended it is a memory of type `fix`, with an edge `fixes` to the lesson.

Its words are an agent's and a box's, so it is in quarantine until a person promotes it. The one that becomes trusted by
itself is that of a verification, in a person's words, which passes later.

Memories help to find such runs; whether they fit, and what they cost, is read from the ledger alone, which no run can
write.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, get_args

from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.memory import (
    FIX,
    FIXES,
    LESSON,
    OUTCOME,
    PREVENTS,
    Author,
    Draft,
    Memory,
    Query,
    Source,
    Tier,
)
from kagura_kernel.journal.precedents import Precedent, precedents, precedents_of, whole
from kagura_kernel.journal.store import Journal
from kagura_kernel.memory.store import MemoryStore, keepable
from kagura_kernel.memory.words import Term, query_terms

LEAST_LIKENESS = 0.5
"""How much two tasks have to have in common, from 0 to 1."""
NEARLY = 0.25
"""How much less than the best fit another one may have in common."""
LONGEST_TASK = 500
"""Characters of a task that are compared: so many the ledger keeps."""
LONGEST_SOUGHT = 120
"""Characters of a task that are searched for: what it is about stands at its beginning, and each word costs time."""
MOST_SIMILAR = 20
ENOUGH = 3
"""From how many runs of the same project, or of the same model, the others are not needed."""

_OUTCOMES = 20
_NEWEST = 200
_TWO = 2


@dataclass(frozen=True, slots=True)
class Sought:
    """What a run is about to do."""

    task: str  # What was asked
    brain: str  # Who will think
    project: str  # The project root on the host
    model: str = ""  # The model that was asked for; empty for the brain's own choice
    scopes: Sequence[str] = ("",)  # Whose memories help to find the like of it


def likeness(one: str, other: str) -> float:
    """How much two tasks have in common, from 0 to 1: words without their endings, and runs of characters."""
    left, right = _said(one[:LONGEST_TASK]), _said(other[:LONGEST_TASK])
    if left.words == right.words:
        return 1.0
    alone = max(len(left.terms), len(right.terms)) <= 1
    # Most pairs share next to nothing, and this is the quick way to see it.
    if not alone and len(left.forms & right.forms) < _TWO:
        return 0.0
    shared = [term for term in left.terms if not right.forms.isdisjoint(term.forms)]
    returned = [term for term in right.terms if not left.forms.isdisjoint(term.forms)]
    # One word in common says nothing, unless it is all that was said.
    if len(shared) < _TWO and not alone:
        return 0.0
    whole = left.weight + right.weight
    return sum(term.weight for term in (*shared, *returned)) / whole if whole else 0.0


def similar_runs(journal: Journal, store: MemoryStore | None, sought: Sought) -> tuple[Precedent, ...]:
    """The runs that are most like a task, the likest first; at most `MOST_SIMILAR`. Blocks.

    The newest runs of its project are looked at first; older ones, to which memories lead, and those of other projects
    only where these are not enough. Each with what its children cost, and without the time in which it waited.

    Raises:
        JournalError: the ledger cannot be read.
        MemoryUnavailable: the memory cannot.
    """
    rows = precedents(journal, brain=sought.brain, project=sought.project, limit=_NEWEST)
    found = choose(sought, rows)
    if len(found) >= ENOUGH:
        return whole(journal, found)
    if store is not None and len(rows) == _NEWEST:
        rows += precedents_of(journal, _remembered(store, sought), brain=sought.brain)
    rows += precedents(journal, brain=sought.brain, limit=_NEWEST)
    return whole(journal, choose(sought, {row.run_id: row for row in rows}.values()))


def choose(sought: Sought, rows: Iterable[Precedent]) -> tuple[Precedent, ...]:
    """Those of some runs that are like a task; of the same project and model alone where there are `ENOUGH`."""
    scored = [(likeness(sought.task, row.task), row) for row in rows]
    alike = [pair for pair in scored if pair[0] >= LEAST_LIKENESS]
    # What was never begun says nothing of what such a run needs, and must not hide those that do.
    best = max((score for score, row in alike if row.status != "denied"), default=0.0)
    alike = [pair for pair in alike if pair[0] >= best - NEARLY]
    alike = _enough(alike, [pair for pair in alike if pair[1].project == sought.project])
    if sought.model:
        alike = _enough(alike, [pair for pair in alike if pair[1].model == sought.model])
    alike.sort(key=lambda pair: (pair[0], pair[1].started_at), reverse=True)
    return tuple(row for _, row in alike[:MOST_SIMILAR])


def _enough(
    all_of_them: list[tuple[float, Precedent]], nearer: list[tuple[float, Precedent]]
) -> list[tuple[float, Precedent]]:
    return nearer if len(nearer) >= ENOUGH else all_of_them


def _remembered(store: MemoryStore, sought: Sought) -> list[str]:
    """Runs that outcome memories lead to. Any tier does: nothing but ids is read, and the ledger decides."""
    query = Query(keepable(sought.task[:LONGEST_SOUGHT]), k=_OUTCOMES, types=(OUTCOME,), scopes=tuple(sought.scopes))
    found = (one.memory.source.run_id for one in store.recall(query))
    return [run_id for run_id in dict.fromkeys(found) if run_id]


@dataclass(frozen=True, slots=True)
class _Said:
    """A task as it is compared."""

    words: str
    terms: tuple[Term, ...]
    forms: frozenset[str]
    weight: float


@lru_cache(maxsize=4096)
def _said(task: str) -> _Said:
    terms = tuple(query_terms(task))
    forms = frozenset(form for term in terms for form in term.forms)
    return _Said(" ".join(task.split()).casefold(), terms, forms, sum(term.weight for term in terms))


VERIFICATION = "verification"
"""Who promoted what a passing verification showed to be right."""

ALIKE = 0.35
"""How much a task has to have in common with the one that a lesson comes from."""
MOST_LESSONS = 5
"""How many a task is told of."""
LONGEST = 240
"""Characters of each of its parts: as much as a person reads at a glance."""

Kind = Literal["command", "tool", "approval", "verification", "run"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_CANDIDATES = 25
_NO_MARKS = str.maketrans("“”„‟«»", '""""""')
_EDGES = 200
_VARYING = re.compile(r"/tmp/\S+|\b[0-9a-f]{7,}\b|\d{4,}", re.IGNORECASE | re.ASCII)  # noqa: S108 - a name that varies


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that went wrong in a run."""

    kind: Kind
    trigger: str  # One line that is the same when it happens again: a command and how it ended
    said: str = ""  # What was said then, one line; a box's or somebody else's words
    fix: str = ""  # What mended it, one line; empty where nothing did
    tool: str = ""  # The tool, if it was one
    line: str = ""  # The whole command; empty where it was none

    def with_texts(self, change: Callable[[str], str]) -> Failure:
        """It with each of its texts changed."""
        return replace(
            self, trigger=change(self.trigger), said=change(self.said), fix=change(self.fix), line=change(self.line)
        )


@dataclass(frozen=True, slots=True)
class Lesson:
    """A failure that is remembered."""

    memory: Memory
    failure: Failure  # What went wrong; its `fix` is the newest that is known, trusted or not
    task: str  # The task in which it was learned
    seen: int = 1  # In how many runs it happened
    prevents: tuple[str, ...] = ()  # Ids of the summaries of those runs
    fixes: tuple[str, ...] = ()  # Ids of the memories that mend it
    fix_id: str = ""  # Of them, the one that `failure.fix` tells; empty where that was known from the beginning alone
    trusted_fix: str = ""  # The newest that may be trusted; empty where none may

    @property
    def trusted(self) -> bool:
        """Whether a brain may be told of it without being marked."""
        return self.memory.tier is Tier.TRUSTED

    @property
    def by_person(self) -> bool:
        """Whether a person said that it may be trusted."""
        return self.trusted and self.memory.promoted_by != VERIFICATION

    @property
    def went_wrong(self) -> str:
        """What went wrong, for a person; of a lesson that somebody wrote down themselves, what they wrote."""
        return self.failure.trigger or one_line(self.memory.text)

    @property
    def fix_shown(self) -> str:
        """What mended it, for a person. Of a lesson that is trusted the newest may still be an agent's word: marked."""
        return f"(not trusted) {self.failure.fix}" if self._doubts_fix else self.failure.fix

    @property
    def _doubts_fix(self) -> bool:
        return self.trusted and self.failure.fix not in ("", self.trusted_fix)

    @property
    def shown(self) -> str:
        """All of it on one line, for a person; what a box or somebody else has said is between quotation marks."""
        failure = self.failure
        said = f" It said: {quoted(failure.said)}{'' if failure.said.endswith('.') else '.'}" if failure.said else ""
        mark = " (not trusted)" if self._doubts_fix else ""
        mended = f" What mended it{mark}: {_sentence(failure.fix)}" if failure.fix else ""
        return f"{_sentence(self.went_wrong)}{said}{mended}"


def lesson_id(failure: Failure, scope: str, task: str = "") -> str:
    """What the memory of this failure is called; with a task, where it is another lesson than in the tasks before."""
    trigger = _VARYING.sub("#", " ".join(failure.trigger.casefold().split()))
    return f"mem-lesson-{_digest(scope, failure.kind, trigger, ' '.join(task.casefold().split()))}"


def fix_id(lesson: str, fix: str) -> str:
    """What the memory of this fix of a lesson is called."""
    return f"mem-fix-{_digest(lesson, _VARYING.sub('#', ' '.join(fix.split())))}"


def lesson_draft(failure: Failure, *, task: str, scope: str, source: Source) -> Draft:
    """The memory of a failure; its texts hold no secret any more."""
    one = bounded(failure)
    asked = one_line(task)
    return Draft(
        # Not what a box said: whoever recalls a trusted lesson reads its text.
        text=f"{one.trigger}\nTask: {asked}",
        source=source,
        type=LESSON,
        summary=one.trigger,
        tags=(one.kind,),
        importance=0.6,
        scope=scope,
        data={
            "kind": one.kind,
            "trigger": one.trigger,
            "said": one.said,
            "fix": one.fix,
            "tool": one.tool,
            "line": one.line,
            "task": asked,
            "run": source.run_id,
        },
        id=lesson_id(failure, scope),
    )


def fix_draft(lesson: str, failure: Failure, *, scope: str, source: Source, session_id: str) -> Draft:
    """The memory of what mended a lesson."""
    one = bounded(failure)
    return Draft(
        text=f"{one.fix}\nIt mended: {one.trigger}",
        source=source,
        type=FIX,
        summary=one.fix,
        tags=(one.kind,),
        importance=0.6,
        scope=scope,
        data={"lesson": lesson, "fix": one.fix, "run": source.run_id, "session": session_id},
        id=fix_id(lesson, one.fix),
    )


def bounded(failure: Failure) -> Failure:
    """It with each part on one line of at most `LONGEST` characters."""
    return failure.with_texts(one_line)


def one_line(text: str) -> str:
    """A text on one line of at most `LONGEST` characters, without what a reader does not see."""
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"


def quoted(words: str) -> str:
    """Between marks that the words themselves do not close."""
    return f"“{words.translate(_NO_MARKS)}”"


def from_elsewhere(memory: Memory) -> bool:
    """Whether a file brought it that nobody believed: one word to a plan is too little to trust such a memory."""
    return memory.tier is not Tier.TRUSTED and memory.source.author is Author.IMPORT


def fits(memory: Memory, task: str) -> bool:
    """Whether a lesson is about a task: learned in the like of it, or about a command that it names."""
    return _fit(task, memory) >= ALIKE


def lessons_for(store: MemoryStore, task: str, scopes: Sequence[str], *, most: int = MOST_LESSONS) -> list[Lesson]:
    """The lessons that fit a task, the best first: learned in the like of it, or about something that it names. Blocks.

    Raises:
        MemoryUnavailable: the memory cannot be reached.
    """
    if not task.strip():
        return []
    query = Query(keepable(task[:LONGEST_SOUGHT]), k=_CANDIDATES, types=(LESSON,), scopes=tuple(scopes))
    scored = [(_fit(task, one.memory), one.score, one.memory) for one in store.recall(query)]
    chosen = sorted((one for one in scored if one[0] >= ALIKE), key=lambda one: one[:2], reverse=True)[:most]
    return [lesson_of(store, memory) for *_, memory in chosen]


def lessons(store: MemoryStore, query: Query) -> list[Lesson]:
    """The lessons that a question finds, or with an empty text the newest; whatever types it names. Blocks.

    Raises:
        MemoryUnavailable: the memory cannot be reached.
        MemoryInvalid: the question cannot be asked.
    """
    return [lesson_of(store, one.memory) for one in store.recall(replace(query, types=(LESSON,)))]


def lesson_of(store: MemoryStore, memory: Memory) -> Lesson:
    """The lesson that a memory of that type is, with what is joined to it."""
    around = store.explore(memory.id, depth=1, types=(PREVENTS, FIXES), most=_EDGES)
    prevents = tuple(edge.target for edge in around.edges if edge.type == PREVENTS and edge.source == memory.id)
    fixes = tuple(edge.source for edge in around.edges if edge.type == FIXES and edge.target == memory.id)
    known = _failure(memory.data)
    mending = [one for one in around.memories if one.id in fixes and one.type == FIX]
    newest = _newest(mending)
    trusted = _newest([one for one in mending if one.tier is Tier.TRUSTED])
    lesson = Lesson(
        memory,
        replace(known, fix=_fix(newest) or known.fix),
        task=_text(memory.data, "task"),
        seen=max(1, len(prevents)),
        prevents=prevents,
        fixes=fixes,
        fix_id=newest.id if newest is not None else "",
    )
    # What it was thought to be at first is no more than that, unless a person has read it.
    return replace(lesson, trusted_fix=_fix(trusted) or (known.fix if lesson.by_person else ""))


def told(lesson: Lesson) -> str:
    """What a brain reads of a lesson, as data: what was measured, and what mended it.

    What a box said then is told only where a person has read it and said that it may be trusted.
    """
    failure = lesson.failure
    lines = [f"What went wrong ({_times(lesson.seen)}): {failure.trigger}"]
    if failure.said and lesson.by_person:
        lines.append(f"It said: {failure.said}")
    lines.append(f"What mended it: {lesson.trusted_fix}" if lesson.trusted_fix else "Nothing is known that mends it.")
    return "\n".join(lines)


def _fit(task: str, memory: Memory) -> float:
    alike = likeness(task, _text(memory.data, "task"))
    line = _text(memory.data, "line")
    return max(alike, 1.0 if line and line.casefold() in task.casefold() else 0.0)


def _sentence(words: str) -> str:
    return words if words.endswith((".", "?", "!")) else f"{words}."


def _newest(found: Sequence[Memory]) -> Memory | None:
    return max(found, key=lambda one: one.created_at, default=None)


def _fix(memory: Memory | None) -> str:
    return "" if memory is None else one_line(_text(memory.data, "fix"))


def _failure(data: Mapping[str, object]) -> Failure:
    said = _text(data, "kind")
    kind: Kind = next((one for one in KINDS if one == said), "run")
    # What a brain is told is never more than what a person is shown, whoever has written it.
    return Failure(kind, *(one_line(_text(data, name)) for name in ("trigger", "said", "fix", "tool", "line")))


def _text(data: Mapping[str, object], name: str) -> str:
    # A memory may have been imported, and then its facts are somebody's.
    found = data.get(name, "")
    return found if isinstance(found, str) else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]
