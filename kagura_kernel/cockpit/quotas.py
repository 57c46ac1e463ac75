"""Holds one person's runs to their quotas, in all processes together: boxes at once, and money in a day.

A box that runs or that was kept for a next cell counts; one that only waits in a warm pool does not, since nobody works
in it and `pool_size` bounds them, nor does the jail of a plugin. Used on the engine's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.errors import JournalError
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.policy import HOST
from kagura_kernel.journal.claims import RENEW_SECONDS, BoxQuota, Claim, Claims
from kagura_kernel.journal.place import is_url
from kagura_kernel.journal.sharing import sees_all
from kagura_kernel.journal.spending import DayBudget
from kagura_kernel.runs.order import LaunchedBox, StartBox

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.sandbox.backend import BoxSpec

_REPLAY = "replay"


def _shows_others(journal: Journal) -> bool:
    """Whether rows of other people are seen: not in a file, nor by whom a journal is shared with by a role."""
    if not is_url(journal.where):
        return False
    with journal.snapshot() as connection:
        return sees_all(connection)


class Quotas:
    """Those of the settings.

    Args:
        settings: The user's.
        journal: Where it is known what other processes have.
        clock: The time.
        owner: This process.
        alive: Whether a process may still be there.
    """

    def __init__(
        self, settings: Settings, journal: Journal, clock: Clock, owner: str, alive: Callable[[str], bool]
    ) -> None:
        self._boxes = BoxQuota(settings.quota_boxes, settings.quota_cpus, settings.quota_memory_mib)
        self._usd = settings.quota_usd_per_day
        self._journal, self._clock, self._owner = journal, clock, owner
        self._by_name = (self._boxes.holds or bool(self._usd)) and _shows_others(journal)
        self._claims = Claims(journal, alive, by_name=self._by_name)
        self._held: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None

    def guarded(self, start_box: StartBox, run_id: str, user: str) -> StartBox:
        """What starts boxes for a run, as long as its person may have another one; raises `QuotaReached` otherwise."""
        if not self._boxes.holds:
            return start_box

        async def start(name: str, spec: BoxSpec) -> LaunchedBox:
            if name == HOST or not spec.policy.walled:
                return await start_box(name, spec)
            limits = spec.limits
            claim = Claim(new_box_id(), run_id, user, self._owner, limits.cpus, limits.memory_bytes // 2**20)
            # On the loop, as each fact of a run is stored, so that nothing is cut off between claim and start.
            self._claims.take(claim, self._boxes)
            self._hold(claim.id)
            try:
                launched = await start_box(name, spec)
            except BaseException:
                self._free(claim.id)
                raise
            return LaunchedBox(launched.box, launched.reason, lambda: self._free(claim.id))

        return start

    def day(self, user: str, brain: BrainProvider | None) -> DayBudget | None:
        """What a run with this brain may still cost today; None where nothing limits it, or nobody is paid.

        Raises:
            QuotaReached: the day's money is spent.
        """
        if not self._usd or brain is None or brain.name == _REPLAY:
            return None
        found = self._day(user)
        found.check()
        return found

    def status(self, user: str) -> Iterator[PartStatus]:
        """How much of each quota a person has."""
        if self._boxes.holds:
            held = self._claims.held(user)
            parts = (
                ("boxes", self._boxes.boxes, len(held)),
                ("cores", self._boxes.cpus, sum(one.cpus for one in held)),
                ("MiB", self._boxes.memory_mib, sum(one.memory_mib for one in held)),
            )
            told = ", ".join(f"{used:g} of {most:g} {what}" for what, most, used in parts if most)
            yield PartStatus("quota of boxes", all(not most or used < most for _, most, used in parts), told)
        if self._usd:
            spent = self._day(user).spent_usd
            told = f"${spent:.2f} of ${self._usd:.2f} until midnight UTC"
            yield PartStatus("quota of the day", spent < self._usd, told)

    def _day(self, user: str) -> DayBudget:
        return DayBudget(self._journal, self._usd, user if self._by_name else "")

    async def close(self) -> None:
        """Give everything back; may be called twice."""
        for claim_id in list(self._held):
            self._free(claim_id)

    def _hold(self, claim_id: str) -> None:
        self._held.add(claim_id)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(), name="renew quotas")

    def _free(self, claim_id: str) -> None:
        if claim_id not in self._held:
            return
        self._held.remove(claim_id)
        if not self._held and self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        # What cannot be written now counts until it lapses: too much for a while, never too little.
        with contextlib.suppress(JournalError):
            self._claims.free(claim_id)

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(RENEW_SECONDS)
            with contextlib.suppress(JournalError):
                self._claims.renew(self._held)
