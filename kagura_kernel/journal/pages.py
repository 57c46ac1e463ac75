"""Long lists a part at a time, for whoever shows them in a browser, and what has changed since the last look.

A cursor is a text that the page before gave; where rows come and go meanwhile, none is shown twice and none left out.

A look costs next to nothing while nothing changes. However much happens between two looks, each topic is told once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import Row, Select, func, literal, or_, select, tuple_

from kagura_kernel.domain.errors import ApprovalUnknown, UsageError
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.journal.moves import called_now, moves, of_notebook
from kagura_kernel.journal.rows import ApprovalRow, RunRow
from kagura_kernel.journal.schema import approvals, events, leases, runs
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import APPROVALS, RUNS, approval_row, one_run, run_row

RunState = Literal["live", "ended"]
ApprovalState = Literal["pending", "decided"]

PAGE_CHARACTERS = 1_000_000
"""A page of events ends early when it has this many, so that long outputs do not fill the memory of a browser."""

_AT_ONCE = 50
_NUMBER = re.compile(r"[0-9]{1,18}")
_ASKED = re.compile(r"(?P<at>[0-9TZ:.-]{27}),(?P<id>[ -~]{1,100})")
_COUNTS = select(
    select(func.count()).select_from(approvals).where(approvals.c.verdict.is_(None)).scalar_subquery().label("pending"),
    select(func.count()).select_from(runs).where(runs.c.status == "running").scalar_subquery().label("live"),
    select(func.coalesce(func.max(events.c.seq), literal(0))).scalar_subquery().label("seq"),
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some rows of a list."""

    items: tuple[Item, ...]  # The rows
    next: str | None  # Cursor of the page behind this one; None where this one is the last


@dataclass(frozen=True, slots=True)
class StoredText:
    """A row of the journal, not decoded."""

    seq: int  # Its number
    body: str  # The event as JSON


@dataclass(frozen=True, slots=True)
class Counts:
    """How the journal stands, in numbers."""

    pending: int  # Approvals that wait
    live: int  # Runs that go on
    seq: int  # The number of the newest row; 0 when there is none


def counts(journal: Journal) -> Counts:
    """How many approvals wait, how many runs go on, and how long the journal is."""
    (row,) = journal.read(_COUNTS)
    return Counts(row.pending, row.live, row.seq)


def run_page(
    journal: Journal,
    *,
    limit: int = 50,
    before: str = "",
    state: RunState | None = None,
    session_id: str = "",
    notebook: str = "",
    text: str = "",
) -> Page[RunRow]:
    """Runs, the newest first.

    Args:
        journal: Which journal.
        limit: How many at most.
        before: Cursor of the page before; empty is the first page.
        state: Only those that go on, or only those that have ended.
        session_id: Only this session's.
        notebook: Only this notebook's, as its server names it now.
        text: Only those with this in their task, id, notebook, model or error code, in capital letters or small ones.

    Raises:
        UsageError: no page gave that cursor.
        JournalUnreadable: they cannot be read.
    """
    query = RUNS.limit(limit + 1)
    if before:
        query = query.where(runs.c.first_seq < _row_number(before))
    if state is not None:
        query = query.where(runs.c.status == "running" if state == "live" else runs.c.status != "running")
    if session_id:
        query = query.where(runs.c.session_id == session_id)
    if notebook:
        query = query.where(of_notebook(journal, notebook))
    if text:
        query = _with_text(query, text)
    rows = journal.read(query)
    shown = rows[:limit]
    more = str(shown[-1].first_seq) if len(rows) > limit else None
    known = moves(journal)

    def as_it_is(row: Row[Any]) -> RunRow:
        return replace(run_row(row), notebook=called_now(known, row.notebook, after=row.first_seq))

    return Page(tuple(journal.readable(shown, as_it_is if known else run_row)), more)


def approval_page(
    journal: Journal, *, limit: int = 50, before: str = "", state: ApprovalState | None = None
) -> Page[ApprovalRow]:
    """Approvals, the newest first, each with the place of its run; arguments and raises as `run_page`."""
    query = APPROVALS.limit(limit + 1)
    if before:
        cursor = _ASKED.fullmatch(before)
        if cursor is None:
            raise _no_cursor()
        query = query.where(tuple_(approvals.c.requested_at, approvals.c.id) < tuple_(cursor["at"], cursor["id"]))
    if state is not None:
        waits = approvals.c.verdict.is_(None)
        query = query.where(waits if state == "pending" else ~waits)
    rows = journal.read(query)
    shown = rows[:limit]
    more = f"{shown[-1].requested_at},{shown[-1].id}" if len(rows) > limit else None
    return Page(tuple(journal.readable(shown, approval_row)), more)


def one_approval(journal: Journal, approval_id: str) -> ApprovalRow:
    """One approval.

    Raises:
        ApprovalUnknown: nothing was asked under this id.
        JournalUnreadable: it cannot be read.
    """
    found = journal.read(APPROVALS.where(approvals.c.id == approval_id))
    if not found:
        raise ApprovalUnknown(approval_id)
    return approval_row(found[0])


def event_page(journal: Journal, run_id: str, *, after: str = "", limit: int = 200) -> Page[StoredText]:
    """The rows of one run in their order, those behind row `after`; fewer than `limit` where they are long.

    The last page of a run that goes on has no cursor: ask again behind its last row.

    Raises:
        RunUnknown: no run bears this id.
        UsageError: `after` is no number of a row.
        JournalUnreadable: they cannot be read.
    """
    last = _row_number(after) if after else 0
    one_run(journal, run_id)
    query = select(events.c.seq, events.c.body).where(events.c.run_id == run_id).order_by(events.c.seq)
    found: list[StoredText] = []
    size = 0
    while True:
        # A little at a time, for a single row may hold megabytes.
        many = min(_AT_ONCE, limit + 1 - len(found))
        rows = journal.read(query.where(events.c.seq > last).limit(many))
        for row in rows:
            if len(found) == limit or (found and size + len(row.body) > PAGE_CHARACTERS):
                return Page(tuple(found), str(found[-1].seq))
            found.append(StoredText(row.seq, row.body))
            size += len(row.body)
        if len(rows) < many:
            return Page(tuple(found), None)
        last = rows[-1].seq


def _with_text(query: Select[Any], text: str) -> Select[Any]:
    places = (runs.c.task, runs.c.run_id, runs.c.notebook, runs.c.model, runs.c.error_code)
    return query.where(*(_holds(word, places) for word in text.lower().split()))


def _holds(word: str, places: tuple[Any, ...]) -> Any:
    return or_(*(func.lower(place).contains(word, autoescape=True) for place in places))


def _row_number(cursor: str) -> int:
    if _NUMBER.fullmatch(cursor) is None:
        raise _no_cursor()
    return int(cursor)


def _no_cursor() -> UsageError:
    return UsageError("The cursor was not given by a page of this list; begin without one.")


Topic = Literal["runs", "approvals", "leases", "costs", "plugins", "memories"]
TOPICS: tuple[Topic, ...] = ("runs", "approvals", "leases", "costs", "plugins", "memories")

# Which lists show something else after an event; all other kinds change none.
_SHOWN: dict[str, tuple[Topic, ...]] = {
    # A session that has run something is one that plugins can be enabled for.
    "run.started": ("runs", "costs", "plugins"),
    "run.finished": ("runs", "costs", "leases"),
    "box.started": ("runs",),
    "changes.collected": ("runs",),
    "tool.called": ("runs",),
    "turn.counted": ("runs", "costs"),
    "approval.requested": ("runs", "approvals"),
    "approval.decided": ("runs", "approvals"),
    "lease.changed": ("leases",),
    "plugin.seen": ("plugins",),
    "plugin.audited": ("plugins",),
    "plugin.changed": ("plugins",),
    "memory.written": ("memories",),
    "memory.changed": ("memories",),
    "notebook.moved": ("runs", "costs"),
}
# Behind so many rows nobody asks what was in them.
_TOO_MANY = 20_000

_LAST = select(func.max(events.c.seq))
_WAITING = select(approvals.c.id, approvals.c.run_id).where(approvals.c.verdict.is_(None))
_OUT = select(leases.c.id, leases.c.run_id, leases.c.state, leases.c.expires_at).where(
    leases.c.state.in_(("minting", "live", "owed"))
)


@dataclass(frozen=True, slots=True)
class Change:
    """One topic of which something is different now."""

    topic: Topic  # Which list
    seq: int  # The number of the journal's newest row
    run_id: str = ""  # The run it is about; empty when it is about several, or about none
    approval_id: str = ""  # The approval it is about; likewise


class Watch:
    """Looks at one journal again and again; for one thread."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._mark = ""
        self._seq = -1
        self._waiting: dict[str, str] = {}
        self._out: dict[str, tuple[str, ...]] = {}

    def look(self) -> list[Change]:
        """The topics that changed since the last look; at the first one, all of them.

        Raises:
            JournalUnreadable: it cannot be read, or is not there any more.
        """
        # First the mark: what is written while the tables are read is seen by the next look.
        mark = self.journal.mark()
        if mark == self._mark:
            return []
        first = not self._mark
        last = int(self.journal.read(_LAST)[0][0] or 0)
        about: dict[Topic, set[str]] = defaultdict(set)
        if first or last - self._seq > _TOO_MANY or last < self._seq:
            about.update({topic: {"", "*"} for topic in TOPICS})
        else:
            self._new_rows(about)
        asked = self._look_at_approvals(about)
        self._look_at_leases(about)
        self._mark, self._seq = mark, last
        return [
            Change(topic, last, _only(about[topic]), _only(asked) if topic == "approvals" else "")
            for topic in TOPICS
            if topic in about
        ]

    def _new_rows(self, about: dict[Topic, set[str]]) -> None:
        new = select(events.c.kind, events.c.run_id).where(events.c.seq > self._seq, events.c.kind.in_(_SHOWN))
        for row in self.journal.read(new.distinct()):
            for topic in _SHOWN[row.kind]:
                about[topic].add(row.run_id)

    def _look_at_approvals(self, about: dict[Topic, set[str]]) -> set[str]:
        """Questions are put, and answers left, before any event says so."""
        before, self._waiting = self._waiting, {row.id: row.run_id for row in self.journal.read(_WAITING)}
        changed = before.keys() ^ self._waiting.keys()
        for run_id in {(before | self._waiting)[key] for key in changed}:
            about["approvals"].add(run_id)
            about["runs"].add(run_id)
        return set(changed)

    def _look_at_leases(self, about: dict[Topic, set[str]]) -> None:
        before, self._out = self._out, {row.id: tuple(row) for row in self.journal.read(_OUT)}
        for key in before.keys() | self._out.keys():
            if before.get(key) != self._out.get(key):
                about["leases"].add((self._out.get(key) or before[key])[1])


def _only(names: Iterable[str]) -> str:
    several = list(names)
    return several[0] if len(several) == 1 else ""
