"""What has changed in a journal since the last look, whichever process changed it: topics, never contents.

A look costs next to nothing while nothing changes. However much happens between two looks, each topic is told once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import func, select

from kagura_kernel.journal.schema import approvals, events, leases
from kagura_kernel.journal.store import Journal

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
