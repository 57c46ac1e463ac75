"""Which runs were about the like of a task.

Memories help to find them; whether they fit, and what they cost, is read from the ledger alone, which no run can write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kagura_kernel.domain.memory import OUTCOME, Query
from kagura_kernel.journal.precedents import Precedent, precedents, precedents_of, whole
from kagura_kernel.journal.store import Journal
from kagura_kernel.memory.drafts import keepable
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.memory.words import Term, query_terms

ALIKE = 0.5
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

_CANDIDATES = 20
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
    alike = [pair for pair in scored if pair[0] >= ALIKE]
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
    query = Query(keepable(sought.task[:LONGEST_SOUGHT]), k=_CANDIDATES, types=(OUTCOME,), scopes=tuple(sought.scopes))
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
