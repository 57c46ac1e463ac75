"""Which refusals have a row of the journal: enough of each to see it, and never so many that they fill it."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass

from kagura_kernel.domain.clock import Clock

WINDOW_SECONDS = 3600.0
"""For so long the bounds below hold, then they begin anew."""

MOST_ROWS, MOST_ROWS_OF_ONE = 100, 20
"""Of all together, and of one operator: of words as many as of clicks and answers, which have a place of their own."""

EACH_UNTIL = 8
"""So many clicks and answers of a kind are told one by one; after that, as words from the first, at each doubling."""

_MOST_KINDS = 1000


@dataclass(frozen=True, slots=True)
class Counted:
    """A refusal that has a row.

    Attributes:
        times: How often it happened: the same operator, reason and subject.
        left_out: Refusals of whatever kind that have had no row since the last one.
    """

    times: int
    left_out: int


class Refusals:
    """Those of one chat. Used on one loop.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._rows: Counter[tuple[bool, str]] = Counter()
        self._began = clock.monotonic()
        self._left_out = 0

    def count(self, operator: str, why: str, subject: str, *, decides: bool) -> Counted | None:
        """Count one; None where it has no row.

        Args:
            operator: Whoever sent it.
            why: The reason.
            subject: The approval or run that it was about; empty for none.
            decides: Whether it was to decide something, as a click or an answer, and not mere talk.
        """
        kind = (operator, why, subject)
        times = self._times[kind] = self._times.pop(kind, 0) + 1
        # Of what was heard longest ago the figure begins anew.
        while len(self._times) > _MOST_KINDS:
            self._times.popitem(last=False)
        is_told = (decides and times <= EACH_UNTIL) or not times & (times - 1)
        if not (is_told and self._has_room(operator, decides=decides)):
            self._left_out += 1
            return None
        counted, self._left_out = Counted(times, self._left_out), 0
        return counted

    def _has_room(self, operator: str, *, decides: bool) -> bool:
        now = self._clock.monotonic()
        if now - self._began >= WINDOW_SECONDS:
            self._rows.clear()
            self._began = now
        mine, everybody = (decides, operator), (decides, "")
        if self._rows[mine] >= MOST_ROWS_OF_ONE or self._rows[everybody] >= MOST_ROWS:
            return False
        self._rows[mine] += 1
        self._rows[everybody] += 1
        return True
