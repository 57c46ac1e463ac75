"""What the journal knows of the runs that another one goes on from. Reads, and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested
from kagura_kernel.domain.events.memory import MemoriesSeen
from kagura_kernel.domain.patterns import Checkpoint, Step
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import going_on_from, runs
from kagura_kernel.patterns.steps import KINDS, Fold, same

LONGEST_LINE = 100
"""Runs that go on from each other."""

WORD_LASTS = timedelta(days=1)
"""How long a person's word for a run's credentials is good for the runs that go on from it."""

_NOBODY = frozenset({"policy", "graduation", "deadline", "settings"})
_HOLDS = (ApprovalKind.CREDENTIAL, ApprovalKind.LAUNCH)


@dataclass(frozen=True, slots=True)
class Past:
    """A line of runs, each of which went on from the one before.

    Attributes:
        runs: Their ids, the first one first.
        done: Finished steps, whole, the oldest first; without those that were lost with their box.
        lost: Finished steps of the last run whose changes to files were not stored any more.
        doubtful: Steps that had begun, of which nobody knows whether they ended.
        untrusted: Whether one of them was shown memories that are not trusted.
        allowed: Credentials that a person has lately let one of them hold, each as `provider:scope`.
    """

    runs: tuple[str, ...] = ()
    done: tuple[Step, ...] = ()
    lost: tuple[Step, ...] = ()
    doubtful: tuple[Step, ...] = ()
    untrusted: bool = False
    allowed: frozenset[str] = frozenset()


def read_past(journal: Journal, checkpoint: Checkpoint, now: datetime) -> Past:
    """What lies behind a checkpoint.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    line = _line(journal, checkpoint.run_id)
    kept = {step.call_id for step in checkpoint.done}
    done: list[Step] = []
    lost: tuple[Step, ...] = ()
    doubtful: list[Step] = []
    for run_id in line:
        fold = _folded(journal, run_id, checkpoint)
        in_order, last = fold.in_order(), run_id == checkpoint.run_id
        stays = [
            step.outside or (step.number <= checkpoint.collected if last else step.call_id in kept) for step in in_order
        ]
        done += [step for step, stay in zip(in_order, stays, strict=True) if stay]
        lost = tuple(step for step, stay in zip(in_order, stays, strict=True) if not stay and step.effects)
        doubtful += fold.doubtful()
    open_ones = tuple(step for step in doubtful if not any(same(step, one) for one in done))
    seen = any(_has_seen_untrusted(journal, run_id) for run_id in line)
    return Past(
        line, tuple(done), lost, open_ones, checkpoint.untrusted or seen, frozenset(_allowed(journal, line, now))
    )


def gone_on_with(journal: Journal, run_id: str, by: str = "") -> str:
    """Why nobody else may go on from a run: another one does, or has; half a sentence, empty for nothing.

    What that one did is not among this one's steps, and would be done a second time.

    Args:
        journal: Which journal.
        run_id: The run.
        by: The run that asks, which comes after those that began before it; empty for one that has no row yet.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    for row in going_on_from(journal, run_id):
        if row.run_id == by:
            return ""
        if row.live:
            return (
                f"{row.run_id} goes on from it. Follow that one with `%kagura attach {row.run_id}`, or stop it first."
            )
        if row.status == "done" and row.verified is not False:
            return f"{row.run_id} went on from it and ended well. Write what comes next into a cell of its own."
        return f"{row.run_id} went on from it, and knows what it did. Resume that one."
    return ""


def _folded(journal: Journal, run_id: str, checkpoint: Checkpoint) -> Fold:
    options = checkpoint.options
    fold = Fold(run_id, plugins=bool(options.get("plugins")), full_control=bool(options.get("full_control")))
    looks = options.get("looks")
    if isinstance(looks, list | tuple):
        fold.looks = frozenset(map(str, looks))
    return fold.add(stored.event for stored in journal.events(run_id=run_id, kinds=KINDS))


def _line(journal: Journal, run_id: str) -> tuple[str, ...]:
    line: list[str] = []
    while run_id and run_id not in line and len(line) < LONGEST_LINE:
        line.append(run_id)
        found = runs(journal, limit=1, run_ids=[run_id])
        run_id = found[0].resumes if found else ""
    return tuple(reversed(line))


def _has_seen_untrusted(journal: Journal, run_id: str) -> bool:
    rows = journal.events(run_id=run_id, kinds=("memory.seen",))
    return any(isinstance(row.event, MemoriesSeen) and row.event.untrusted for row in rows)


def _allowed(journal: Journal, line: Sequence[str], now: datetime) -> set[str]:
    """What the rows prove that a person has allowed; of a word without its question nothing follows."""
    found: set[str] = set()
    for run_id in line:
        asked: dict[str, ApprovalRequested] = {}
        for row in journal.events(run_id=run_id, kinds=("approval.requested", "approval.decided")):
            match row.event:
                case ApprovalRequested(subject=subject) if subject in _HOLDS:
                    asked[row.event.approval_id] = row.event
                case ApprovalDecided(verdict=Verdict.ALLOW) if row.event.approval_id in asked:
                    question, word = asked[row.event.approval_id], row.event
                    by_person = not _NOBODY & {word.by, word.via}
                    # A word of a day to come was said under another clock: nobody knows how old it is.
                    lately = timedelta() <= now - word.at < WORD_LASTS
                    if by_person and word.content_hash == question.content_hash and lately:
                        found |= {str(name) for name in question.arguments.get("credentials", ())}
    return found
