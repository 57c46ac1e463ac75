"""Children at Dask workers: sent as text, watched by the journal and the scheduler, ended with their parents."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kagura_kernel.assembly import dask_worker
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.errors import JournalError, KaguraError, RunLost, RunUnknown, WorkersUnavailable
from kagura_kernel.domain.events import RunFinished, RunStarted
from kagura_kernel.domain.identity import new_run_id
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.journal.lost_runs import lose
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.runs.order import ChildOrder

Client = Any
Future = Any
"""Dask's own, which are not typed throughout."""

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""How often it is looked whether a child has begun, and whether its worker is still there."""

CONNECT_SECONDS = 10.0
"""How long a scheduler may take to answer what it knows itself."""

STOP_SECONDS = 35.0
"""How long workers may take to say that a child is gone."""

_SILENT = "the scheduler there has a connection and does not answer."
_MISSES = 3
"""So often a child is looked for in vain before its worker counts as gone: a task may be on its way between two."""


@dataclass(frozen=True, slots=True)
class DaskParts:
    """What children at workers need of the process that waits for them."""

    journal: Journal  # The record, which the workers share
    blobs: BlobStore  # Where contents of changed files wait
    clock: Clock  # The time
    gone: Callable[[str], None]  # Told of the owner of a run whose worker is gone, so that what it held is given back


class DaskChildren:
    """Runs children at workers. On the engine's loop."""

    def __init__(self, parts: DaskParts) -> None:
        self._parts = parts
        self._clients: dict[str, asyncio.Task[Client]] = {}
        self._places = _Places()

    async def run(self, order: ChildOrder, started: Callable[[str, str], None]) -> RunOutcome:
        """Do it; see `Children.run`. A child whose worker is gone comes back as `lost`.

        Raises:
            WorkersUnavailable: nobody is there to do it, or the worker refuses.
        """
        run_id = order.handoff.run_id or new_run_id()
        order = replace(order, handoff=replace(order.handoff, run_id=run_id))
        text, contents = await asyncio.to_thread(self._packed, order)
        client = await self._client(order.workers)

        places, more = await self._places.of(client, order)
        future = client.submit(
            dask_worker.run_child, text, contents, key=f"kagura-{run_id}", pure=False, retries=0, workers=places, **more
        )
        one = _Watched(self._parts, client, future, order, started, frozenset(places))
        try:
            return await one.to_the_end()
        except BaseException:
            await _held(one.stop())
            raise
        finally:
            future.release()

    async def close(self) -> None:
        """Take leave of the schedulers; may be called twice."""
        clients, self._clients = list(self._clients.values()), {}
        for connecting in clients:
            connecting.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await (await connecting).close(timeout=2)

    def _packed(self, order: ChildOrder) -> tuple[str, dict[str, bytes]]:
        try:
            contents = dask_worker.contents_of(order.changes, self._parts.blobs)
        except ValueError as error:
            raise WorkersUnavailable(order.workers, f"{error}.") from error
        return dask_worker.packed(
            dask_worker.Packet(order, dask_worker.journal_name(self._parts.journal), dask_worker.our_version())
        ), contents

    async def _client(self, address: str) -> Client:
        connecting = self._clients.get(address)
        if connecting is None or (connecting.done() and not _usable(connecting)):
            connecting = self._clients[address] = asyncio.create_task(_connected(address), name=f"reach {address}")
        return await asyncio.shield(connecting)


class _Places:
    """Which workers have boxes. Each is asked once, by the address that it has as long as it lives."""

    def __init__(self) -> None:
        # What several children at once want to know is asked once.
        self._asking = asyncio.Lock()
        self._says: dict[tuple[str, str], bool] = {}
        self._whys: dict[tuple[str, str, str], str] = {}

    async def of(self, client: Client, order: ChildOrder) -> tuple[list[str], dict[str, Any]]:
        """The workers that a child may go to, and what else Dask is told of it.

        Where some say how many boxes they have, it goes to one of these, as one of so many. Otherwise each is tried.

        Raises:
            WorkersUnavailable: none of them has a box.
        """
        scheduler = order.workers
        try:
            workers = list(await _soon(client.nthreads()))
        except TimeoutError as error:
            raise WorkersUnavailable(scheduler, _SILENT) from error
        if not workers:
            raise WorkersUnavailable(scheduler, "the scheduler there has no worker any more.")
        if order.handoff.policy and not SandboxPolicy(SandboxPolicyType(order.handoff.policy)).walled:
            return workers, {}
        async with self._asking:
            if saying := await self._saying(client, scheduler, workers):
                return saying, {"resources": {dask_worker.RESOURCE: 1}}
            whys = await self._tried(client, scheduler, workers, order.box)
        if able := [one for one, why in whys.items() if not why]:
            return able, {}
        for one in workers:
            # Somebody may mend it, and the next child finds out.
            self._whys.pop((scheduler, one, order.box), None)
        told = "; ".join(f"{one}: {why}" for one, why in whys.items())
        raise WorkersUnavailable(scheduler, f"no worker there has a box. {told}")

    async def _saying(self, client: Client, scheduler: str, workers: Sequence[str]) -> list[str]:
        """Those that say how many boxes they have."""
        new = [one for one in workers if (scheduler, one) not in self._says]
        for one, says in (await _each(client, new, dask_worker.says_boxes)).items():
            self._says[scheduler, one] = says is True
        return [one for one in workers if self._says.get((scheduler, one))]

    async def _tried(self, client: Client, scheduler: str, workers: Sequence[str], box: str) -> dict[str, str]:
        """Why each has no box, found out by starting one; empty where it has."""
        new = [one for one in workers if (scheduler, one, box) not in self._whys]
        for one, why in (await _each(client, new, dask_worker.why_no_box, box)).items():
            self._whys[scheduler, one, box] = why if isinstance(why, str) else _unlike(why)
        return {one: self._whys.get((scheduler, one, box), "it does not answer") for one in workers}


async def _each(client: Client, workers: Sequence[str], function: Callable[..., Any], *words: str) -> dict[str, Any]:
    """What a function says in each of these workers; its error where it fails."""
    if not workers:
        return {}
    found: dict[str, Any] = await client.run(function, *words, workers=list(workers), on_error="return")
    return found


def _unlike(error: object) -> str:
    return f"it does not answer ({type(error).__name__}); install the same version of kagura-kernel there"


class _Watched:
    """One child at a worker, from the submission to its end."""

    def __init__(
        self,
        parts: DaskParts,
        client: Client,
        future: Future,
        order: ChildOrder,
        started: Callable[[str, str], None],
        places: frozenset[str],
    ) -> None:
        self._places = places
        self._parts = parts
        self._client = client
        self._future = future
        self._order = order
        self._run_id = order.handoff.run_id
        self._started = started
        self._owner = ""
        self._worker = ""
        self._missed = 0
        self._is_silent = False

    async def to_the_end(self) -> RunOutcome:
        """How it ended.

        Raises:
            WorkersUnavailable: it could not begin.
        """
        answer = asyncio.ensure_future(_answer(self._future))
        try:
            while not answer.done():
                await asyncio.wait({answer}, timeout=LOOK_SECONDS)
                if not answer.done() and await self._is_lost():
                    return await self._lost()
            await self._look_for_start()
            return await self._outcome(answer)
        finally:
            answer.cancel()

    async def stop(self) -> None:
        """End it wherever it is, and return when it is gone."""
        await self._call_off()

        # A scheduler or a worker that is gone has nothing left to stop.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(STOP_SECONDS):
                # One that does not answer hands nothing on either.
                await _soon(self._client.processing())
                await self._client.run(dask_worker.stop_child, self._run_id, on_error="ignore")
                await self._future.cancel()

    async def _call_off(self) -> None:
        """Leave it the word to stop: what the scheduler no longer reaches may still read the journal."""
        with contextlib.suppress(JournalError, RunUnknown):
            await asyncio.to_thread(Mailbox(self._parts.journal).send, self._run_id, "kill", by=self._by)

    @property
    def _by(self) -> str:
        return f"the end of {self._order.parent}" if self._order.parent else "the program that asked for it"

    async def _outcome(self, answer: asyncio.Future[Any]) -> RunOutcome:
        error = answer.exception()
        if error is not None:
            log.info("%s at %s: %s", self._run_id, self._order.workers, type(error).__name__)
            if self._owner:
                return await self._lost()
            raise WorkersUnavailable(self._order.workers, f"the task did not come back ({type(error).__name__}).")
        try:
            text, contents = answer.result()
            report: dask_worker.Report = dask_worker.report_of(text)
        except (TypeError, ValueError) as wrong:
            raise WorkersUnavailable(self._order.workers, "what a worker said cannot be understood.") from wrong
        if report.code == dask_worker.BEGUN_BEFORE:
            return await self._lost()
        if report.outcome is None:
            raise WorkersUnavailable(self._order.workers, f"{report.message} [{report.code}]")
        if not self._owner:
            raise WorkersUnavailable(
                self._order.workers,
                "the run is not in this journal. Give both sides the same PostgreSQL URL in `journal_url`.",
            )
        await dask_worker.keep(contents, self._parts.blobs)
        return report.outcome

    async def _look_for_start(self) -> None:
        if self._owner:
            return
        rows = await asyncio.to_thread(self._parts.journal.events, run_id=self._run_id, kinds=("run.started",), limit=1)
        if rows and isinstance(rows[0].event, RunStarted):
            self._owner = rows[0].event.owner
            self._started(self._run_id, self._owner.rpartition(":")[0])

    async def _is_lost(self) -> bool:
        """Whether it has begun at a worker that the scheduler no longer has.

        Raises:
            WorkersUnavailable: it has not, and none is left that it could go to.
        """
        await self._look_for_start()
        at, homeless = await self._place()
        if at:
            self._worker, self._missed = at, 0
        elif self._owner or homeless:
            self._missed += 1
        if self._missed >= _MISSES and not self._owner:
            why = _SILENT if self._is_silent else "the workers there that had boxes are gone."
            raise WorkersUnavailable(self._order.workers, why)
        return self._missed >= _MISSES

    async def _place(self) -> tuple[str, bool]:
        """The worker that has it, and whether none can be found that could."""
        key = self._future.key
        self._is_silent = False
        try:
            busy = await _soon(self._client.processing())
        except TimeoutError:
            self._is_silent = True
            return "", True
        except Exception as error:  # noqa: BLE001 - whatever it is, the scheduler does not answer; the future will say so
            log.info("the scheduler at %s does not answer: %s", self._order.workers, type(error).__name__)
            return self._worker, False
        at = next((worker for worker, keys in busy.items() if key in keys), "")
        return at, self._places.isdisjoint(busy)

    async def _lost(self) -> RunOutcome:
        """Its worker is gone: nothing of it may go on, and what it held is given back."""
        await self._call_off()
        # Otherwise the scheduler would give it to the next worker.
        with contextlib.suppress(Exception):
            await _soon(self._future.cancel())
        await self._look_for_start()
        why = f"the scheduler at {self._order.workers} does not answer"
        why = why if self._is_silent else f"its worker ({self._owner}) is gone"
        await asyncio.to_thread(lose, self._parts.journal, self._run_id, why, self._parts.clock)
        if self._owner:
            self._parts.gone(self._owner)
        error = RunLost(self._run_id, why)
        rows = await asyncio.to_thread(self._parts.journal.events, run_id=self._run_id, kinds=("run.finished",))
        figures = rows[-1].event if rows and isinstance(rows[-1].event, RunFinished) else None
        return RunOutcome(
            run_id=self._run_id,
            session_id=self._order.session_id,
            status="lost",
            cost=Cost(figures.reported_usd, figures.computed_usd, figures.cost_source)
            if figures is not None
            else Cost(),
            duration=figures.duration if figures is not None else 0.0,
            error_code=error.code,
            error=error.message,
        )


async def _answer(future: Future) -> Any:
    return await future


async def _soon(answer: Awaitable[Any]) -> Any:
    """What a scheduler knows itself. Raises `TimeoutError` where it does not say it."""
    async with asyncio.timeout(CONNECT_SECONDS):
        return await answer


async def _connected(address: str) -> Client:
    try:
        # Half a second of imports, and not on the loop where every run lives.
        distributed = await asyncio.to_thread(_library)
    except ImportError as error:
        raise WorkersUnavailable(address, "install kagura-kernel[workers] here.") from error
    client = distributed.Client(
        address, asynchronous=True, set_as_default=False, name="kagura-kernel", timeout=CONNECT_SECONDS
    )
    try:
        await client
        await client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError) as error:
        await client.close(timeout=1)
        raise WorkersUnavailable(address, "nobody answers there, or the scheduler there has no worker.") from error
    # Without certificates in Dask's configuration there is no way to a tls:// address.
    except (TypeError, ValueError) as error:
        await client.close(timeout=1)
        why = f"Dask cannot connect ({type(error).__name__}). For tls:// its configuration has to name certificates."
        raise WorkersUnavailable(address, why) from error
    return client


def _library() -> Any:
    is_ours = "distributed" not in sys.modules
    import distributed

    if is_ours:
        # Of a scheduler that is gone it writes a stack trace into the cell, and whoever waits is told in words.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        # Its table of other versions of Python at workers speaks of objects that travel, and none of ours does.
        warnings.filterwarnings("ignore", category=distributed.versions.VersionMismatchWarning)
    return distributed


def _usable(connecting: asyncio.Task[Client]) -> bool:
    if connecting.cancelled() or connecting.exception() is not None:
        return False
    return bool(connecting.result().status == "running")


async def _held(work: Any) -> None:
    """Wait for it even when the waiting is cancelled once more: what it ends must not stay behind."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError, KaguraError):
            await asyncio.shield(task)
