"""When trust is earned: how a category stands by the rules, what it still lacks, and when that may be proposed. Pure.

Graduation proposes and never grants: what is decided here is whether a person is asked, and never the answer.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.categories import CATEGORIES, Category
from kagura_kernel.domain.events import TrustChanged
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.journal.trust import Standing, TrustFold
from kagura_kernel.patterns.categories import BY_NAME

VIA = "graduation"
"""Where a decision comes from that an earned grant has made."""

MOST_NAMED = 20
"""Names that a proposal tells."""

State = Literal["included", "locked", "proposed", "graduated", "demoted"]

_NOBODY = frozenset({"policy", "deadline", "run", VIA, ""})
_HOW = {
    "exit-code": "its command on the host ended with 0",
    "verification": "its verification passed",
    "human": "a person said that it went well",
}
_NOT_WORDS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True, slots=True)
class Report:
    """How one category stands."""

    category: Category
    state: State  # By one word
    standing: Standing  # What the journal says
    days: float  # Over how many days the successes are spread
    missing: tuple[str, ...]  # What is lacking before it may be proposed, a clause each; empty when nothing is


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a category's curve."""

    category: str  # Its name
    at: datetime  # When
    successes: int  # How many it has from here on
    change: str  # What happened
    run_id: str  # In which run; empty for a person's word


def report(category: Category, standing: Standing | None, terms: TrustTerms, now: datetime) -> Report:
    """How a category stands."""
    found = standing or Standing(category.name)
    days = found.spread(now) / timedelta(days=1)
    return Report(category, state_of(category, found), found, days, missing(category, found, terms, now))


def reports(standings: Mapping[str, Standing], terms: TrustTerms, now: datetime) -> list[Report]:
    """How all of them stand, in the order of the policy."""
    return [report(category, standings.get(category.name), terms, now) for category in CATEGORIES]


def lacking(found: Report) -> str:
    """What is missing before it is trusted, in words."""
    if found.state == "graduated":
        return "nothing: it is asked about no more"
    return "; ".join(found.missing) or f"your word: `%kagura graduation grant {found.category.name}`"


def state_of(category: Category, standing: Standing) -> State:
    """One word for how it stands."""
    if standing.graduated and category.graduates:
        return "graduated"
    if standing.proposed_at is not None:
        return "proposed"
    if standing.demoted:
        # Nothing was taken from what had never been trusted; it is only asked about every time.
        return "demoted" if standing.earned else "locked"
    return "included" if category.included else "locked"


def is_locked(name: str, standings: Mapping[str, Standing]) -> bool:
    """Whether it is asked about every single time, so that no answer holds for longer than a run."""
    standing = standings.get(name)
    if standing is None:
        return not BY_NAME[name].included
    return not is_graduated(name, standings) and (standing.demoted or not BY_NAME[name].included)


def is_graduated(name: str, standings: Mapping[str, Standing]) -> bool:
    """Whether its grant answers."""
    standing = standings.get(name)
    return standing is not None and standing.graduated and BY_NAME[name].graduates


def missing(category: Category, standing: Standing, terms: TrustTerms, now: datetime) -> tuple[str, ...]:
    """What is lacking before it may be proposed, a clause each."""
    if not category.graduates:
        return ("it never graduates",)
    if standing.graduated:
        return ()
    lacks = []
    if (successes := len(standing.successes)) < terms.successes:
        lacks.append(f"{_more(terms.successes - successes, 'verified success', 'verified successes')}")
    if (tasks := standing.tasks) < terms.tasks:
        lacks.append(f"{_more(terms.tasks - tasks, 'different task', 'different tasks')}")
    needed = timedelta(days=terms.days)
    if (spread := standing.spread(now)) < needed:
        lacks.append(f"successes {_days(needed - spread)} further apart")
    since = standing.since_failure(now)
    if since is not None and since < needed:
        lacks.append(f"{_days(needed - since)} more since the last failure")
    return tuple(lacks)


def may_propose(category: Category, standing: Standing, terms: TrustTerms, now: datetime) -> bool:
    """Whether a person is to be asked now: all rules hold, and they were not asked lately."""
    if standing.graduated or missing(category, standing, terms, now):
        return False
    if standing.asked_at is None:
        return True
    newer = standing.successes[-1].not_before > standing.asked_at
    return newer and now - standing.asked_at >= timedelta(days=terms.days)


def may_grant(category: Category, standing: Standing, terms: TrustTerms, now: datetime) -> bool:
    """Whether a person may say yes now: all rules hold, whether it was proposed or not."""
    return not standing.graduated and not missing(category, standing, terms, now)


def curve(changes: Iterable[TrustChanged]) -> list[Point]:
    """How categories came to where they are, a point for each row that changed something; uses are left out."""
    fold, points = TrustFold(), []
    for change in changes:
        before = fold.standings.get(change.category)
        fold.take(change)
        after = fold.standings[change.category]
        if change.change != "applied" and after != before:
            points.append(Point(change.category, change.at, len(after.successes), change.change, change.run_id))
    return points


def task_digest(task: str) -> str:
    """By which tasks are told apart: the same words in any order, with other numbers or signs, are the same task."""
    words = _NOT_WORDS.sub(" ", unicodedata.normalize("NFKC", task).casefold()).split()
    return hashlib.sha256(" ".join(sorted(set(words))).encode("utf-8", "surrogatepass")).hexdigest()


def is_persons(decision: Decision) -> bool:
    """Whether a person has decided it, and not a rule, a deadline or the end of a run."""
    decided = decision.verdict in {Verdict.ALLOW, Verdict.DENY}
    return decided and decision.by not in _NOBODY and decision.via not in _NOBODY


def evidence_lines(standing: Standing) -> Sequence[str]:
    """The successes, a line each: when, how it is known, and in which run."""
    how = {
        "exit-code": "the command ended with 0",
        "verification": "its verification passed",
        "human": "a person said so",
    }
    return [f"{one.at:%Y-%m-%d}  {one.run_id}  {how[one.signal]}" for one in standing.successes]


def names_words(standing: Standing) -> str:
    """To whom alone it would go, as the end of a sentence; empty where its deeds name nobody."""
    names = sorted(standing.names)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f" (where a name is given, only {', '.join(names[:MOST_NAMED])}{more})" if names else ""


def _more(count: int, one: str, several: str) -> str:
    return f"{count} more {one if count == 1 else several}"


def _days(span: timedelta) -> str:
    days = span / timedelta(days=1)
    return "1 day" if days == 1 else f"{days:.3g} days"


ANSWER_SECONDS = 60.0
"""How long a run that is over waits for the answer; afterwards the proposal stands, to be granted by a command."""


_STILL_ASKED = (
    "whatever is not exactly understood as that alone, names that it has not gone well with, and runs that saw "
    "quarantined memories"
)


def proposal(category: Category, standing: Standing, now: datetime, *, run_id: str, session_id: str) -> ApprovalRequest:
    """The question."""
    return ApprovalRequest(
        id=new_approval_id(),
        run_id=run_id,
        session_id=session_id,
        kind=ApprovalKind.TRUST,
        title=f"Trust {category.name} from now on?",
        detail=proposal_text(category, standing, now),
        reason="It has gone well often enough, in different tasks and over a long enough time.",
        arguments={
            "category": category.name,
            "runs": [success.run_id for success in standing.successes],
            "tasks": standing.tasks,
            "days": round(standing.spread(now) / timedelta(days=1), 1),
        },
        requested_at=now,
        deadline=ANSWER_SECONDS,
    )


def proposal_text(category: Category, standing: Standing, now: datetime) -> str:
    """What speaks for it, what would not be asked any more, what still would, and how to take it back."""
    days = standing.spread(now) / timedelta(days=1)
    runs = f"{len(standing.successes)} runs with {standing.tasks} different tasks over {days:.3g} days, and no failure"
    return "\n".join(
        (
            f"What speaks for it: {runs}.",
            *(f"  {line}" for line in evidence_lines(standing)),
            f"Not asked any more: {category.about}{names_words(standing)}.",
            f"Still asked: {_STILL_ASKED}.",
            f"Taken back by one failure, and by `%kagura graduation revoke {category.name}`.",
        )
    )
