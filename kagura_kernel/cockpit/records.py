"""What boards, panels and charts read of the journal: bounded, and of every process on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from kagura_kernel.domain.approvals import ApprovalRequest
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.events import Event
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal import spending, views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.rows import EgressRow, RunRow
from kagura_kernel.journal.spending import BudgetUse, DaySpending, Spending
from kagura_kernel.journal.store import Journal

COST_DAYS = 30
"""How far back costs are looked at when nobody says otherwise."""
MAX_CONNECTIONS = 20_000
MAX_EVENTS = 20_000
"""How many connections and events a picture is made of at most: the newest connections, the first events."""


@dataclass(frozen=True, slots=True)
class Board:
    """All runs that go on, and the last ones that ended."""

    live: tuple[RunRow, ...]  # Runs that go on, of every process, the newest first
    ended: tuple[RunRow, ...]  # The last ones that ended, the newest first
    waiting: dict[str, tuple[ApprovalRequest, ...]]  # What each run asks a person, by run, the oldest question first
    gone: frozenset[str]  # Runs of which nobody has said an end, though their process is gone
    here: frozenset[str]  # Runs of this process


@dataclass(frozen=True, slots=True)
class CostReport:
    """What was spent. Days are those of UTC."""

    today: Spending  # By all runs that began today
    here: Spending  # By the runs of one notebook, or of one session
    budget: BudgetUse | None  # The newest run that goes on under a budget; None when there is none
    days: tuple[DaySpending, ...]  # By day, brain and model, the oldest first
    since: date  # The first of these days


class Records:
    """The journal, to look at; for any thread. Every method raises `JournalUnreadable` when it cannot be read."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def board(self, *, ended: int, here: Sequence[str]) -> Board:
        """How all runs stand."""
        live = views.unfinished(self._journal)
        # The last so many runs hold at least the last ended ones, but for those that go on.
        latest = views.runs(self._journal, limit=ended + len(live))
        waiting: dict[str, tuple[ApprovalRequest, ...]] = {}
        for request in Mailbox(self._journal).pending():
            waiting[request.run_id] = (*waiting.get(request.run_id, ()), request)
        alive = {owner: owner_alive(owner) for owner in {row.owner for row in live}}
        return Board(
            live=tuple(live),
            ended=tuple(row for row in latest if not row.live)[:ended],
            waiting=waiting,
            gone=frozenset(row.run_id for row in live if not alive[row.owner]),
            here=frozenset(here),
        )

    def costs(self, session_id: str, notebook: str = "") -> CostReport:
        """What was spent today, by a notebook or else by a session, under its budget, and in the last days."""
        session = "" if notebook else session_id
        today = self._clock.now().date()
        since = today - timedelta(days=COST_DAYS - 1)
        return CostReport(
            today=spending.spent(self._journal, day=today),
            here=spending.spent(self._journal, notebook=notebook, session_id=session),
            budget=spending.budget_in_use(self._journal, notebook=notebook, session_id=session),
            days=tuple(spending.spent_by_day(self._journal, since, today)),
            since=since,
        )

    def events(self, run_id: str, kinds: Sequence[str]) -> list[Event]:
        """The first so many events of these kinds, in their order."""
        return [row.event for row in self._journal.events(run_id=run_id, kinds=kinds, limit=MAX_EVENTS)]

    def connections(self, run_id: str | None = None) -> list[EgressRow]:
        """The latest so many connections that boxes asked for, the newest first, of all runs or of one."""
        return views.egress(self._journal, run_id=run_id, limit=MAX_CONNECTIONS)
