"""Where parts of a run's work are done: in this process, or at the workers that were named."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.agents import child_intent
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import NotThisTime
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.runs.order import ChildOrder, Children
from kagura_kernel.runtime.router import use_approver

if TYPE_CHECKING:
    from kagura_kernel.assembly.dask_children import DaskChildren
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.outcome import RunOutcome


class LocalChildren:
    """Runs children as runs of this process, at the same desk and with the same boxes. On the engine's loop."""

    def __init__(self, cockpit: Cockpit) -> None:
        self._cockpit = cockpit

    async def run(self, order: ChildOrder, started: Callable[[str, str], None]) -> RunOutcome:
        """Do it; see `Children.run`."""
        # A child asks for itself, never with its parent's voice.
        with use_approver(None):
            launching = asyncio.ensure_future(asyncio.to_thread(self._cockpit.launch, child_intent(order)))
        try:
            handle = await asyncio.shield(launching)
            started(handle.run_id, "")
            return await handle.wait()
        except BaseException:
            await _to_the_end(_killed(launching, order.parent))
            raise


async def _killed(launching: asyncio.Future[RunHandle], parent: str) -> None:
    with contextlib.suppress(Exception):  # it did not begin, and whoever waits for it is told why
        handle = await launching
        handle.kill(f"the end of {parent}" if parent else "the program that asked for it")
        await handle.ended()


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for it even when the waiting is cancelled once more: what it ends must not stay behind."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)


class AllChildren:
    """Runs children where their orders say: the parts of a run's work that it hands on."""

    def __init__(self, journal: Journal, home: Path, clock: Clock, owners: Owners) -> None:
        """No worker is reached yet; `owners` is told of processes that are gone with theirs."""
        self._parts = journal, home, clock
        self._owners = owners
        self._cockpit: Cockpit | None = None
        self._at_workers: DaskChildren | None = None

    def of(self, cockpit: Cockpit) -> Children:
        """Those of this cockpit."""
        self._cockpit = cockpit
        return self

    async def run(self, order: ChildOrder, started: Callable[[str, str], None]) -> RunOutcome:
        """Do it; see `Children.run`."""
        if self._cockpit is None:
            raise NotThisTime("Nothing can be handed on before the cockpit is there.")
        if not order.workers:
            return await LocalChildren(self._cockpit).run(order, started)
        self._at_workers = self._at_workers or self._made(self._cockpit)
        return await self._at_workers.run(order, started)

    async def close(self) -> None:
        """Take leave of the workers; may be called twice."""
        if self._at_workers is not None:
            await self._at_workers.close()

    def _made(self, cockpit: Cockpit) -> DaskChildren:
        from kagura_kernel.assembly.dask_children import DaskChildren, DaskParts

        def gone(owner: str) -> None:
            self._owners.gone(owner)
            cockpit.sweep()

        journal, home, clock = self._parts
        return DaskChildren(DaskParts(journal, BlobStore(home / "blobs"), clock, gone))


class Owners:
    """Which processes are there, with what a scheduler has said of those that cannot be seen from here."""

    def __init__(self) -> None:
        self._gone: set[str] = set()

    def gone(self, owner: str) -> None:
        """That process is gone."""
        self._gone.add(owner)

    def alive(self, owner: str) -> bool:
        """Whether it may still be there."""
        return owner not in self._gone and owner_alive(owner)


async def close_each(*closing: Callable[[], Awaitable[None]]) -> None:
    """Close one thing after the other."""
    for close in closing:
        await close()
