"""Whether a look at a journal is worth it: for whoever waits for a word there, many times a second.

While nothing is written a glance costs microseconds, and no table is read.
"""

from __future__ import annotations

import time
from collections import deque

from kagura_kernel.journal.place import is_url
from kagura_kernel.journal.store import Journal

PAUSE_SECONDS, LONGEST_PAUSE = 0.05, 0.5
"""Between two glances: the second where the journal is far away."""

ANYWAY_SECONDS = 2.0
"""After so long it is worth it whatever the journal says."""

_ENOUGH = 8


class Glance:
    """One waiter's glances at one journal; for one thread at a time.

    Ask `news` first, then read what is waited for, then say `seen`: what is written meanwhile is news again, and a look
    that failed is made again.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seen = ""
        self._since = float("-inf")
        self._wanted = 0
        self._is_server = is_url(journal.where)
        self._took: deque[float] = deque(maxlen=_ENOUGH)

    @property
    def pause(self) -> float:
        """Seconds until the next one: glances at a server that is far away take a small part of the time too."""
        if not self._is_server or len(self._took) < _ENOUGH:
            return PAUSE_SECONDS
        # The quickest of the last ones: what a busy machine adds now and then says nothing about the way.
        return min(max(PAUSE_SECONDS, 20 * min(self._took)), LONGEST_PAUSE)

    def news(self) -> str | None:
        """What to say to `seen` after the look; None when there is nothing to look for.

        Raises:
            JournalUnreadable: the place does not answer, or the journal is not there any more.
        """
        began = time.perf_counter()
        mark = f"{self._wanted}:{self._journal.mark()}"
        self._took.append(time.perf_counter() - began)
        waited = self._journal.clock.monotonic() - self._since
        return None if mark == self._seen and waited < ANYWAY_SECONDS else mark

    def seen(self, mark: str) -> None:
        """The look is over."""
        self._seen = mark
        self._since = self._journal.clock.monotonic()

    def forget(self) -> None:
        """Have the next glance find news: something else is waited for now."""
        self._wanted += 1
