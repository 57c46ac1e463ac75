"""What it takes to hand a task on that is nothing to do, here and at a worker, beside a run of the same by itself."""

from __future__ import annotations

import asyncio
from time import perf_counter

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.events import ToolFinished
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.brain import Hang
from tests.bench.harness import Bench, Bound, Line, Measure, Missing, interleaved, milliseconds
from tests.bench.places import project
from tests.integration.dispatch.conftest import hand_on
from tests.integration.dispatch.workers import cluster, cockpit_at, on_each, set_up, take_down

_REST = Hang(0.4)
"""The pool has a box again by then."""


async def work_handed_on(bench: Bench) -> list[Line]:
    """From the call to its answer, with a warm pool on either side."""
    backend = BubblewrapBackend()
    probe = await backend.probe()
    await backend.close()
    if not probe.ok:
        raise Missing(probe.reason)
    workspace, home = project(bench, "handed"), str(bench.folder / "handing")
    script = {"parent": [_REST, hand_on("nothing"), "."], "alone": [_REST, "."]}
    with cluster(1, 2) as made:
        address = made.scheduler_address
        await asyncio.to_thread(on_each, address, set_up, home, {})
        here, there = cockpit_at(home, {}, script), cockpit_at(home, {"workers": address}, script)
        intent = RunRequest(task="parent", project=workspace, net=("none",), new_session=True)

        async def alone() -> float:
            await asyncio.sleep(_REST.seconds or 0)
            began = perf_counter()
            await here.launch(RunRequest(task="nothing", project=workspace, net=("none",), new_session=True)).wait()
            return perf_counter() - began

        try:
            sides = {"here": handing(here, intent), "there": handing(there, intent), "alone": alone}
            figures = await interleaved(bench.samples, **sides)
        finally:
            for cockpit in (here, there):
                await asyncio.to_thread(cockpit.close)
            await asyncio.to_thread(on_each, address, take_down)
    return [
        Line(
            "a task of nothing handed on in one process",
            "the same task as a run by itself",
            milliseconds(figures["here"]),
            milliseconds(figures["alone"]),
            bound=Bound("≤ 60 ms", 60.0 / milliseconds(figures["alone"])),
            samples=bench.samples,
        ),
        Line(
            "the same at a Dask worker on this machine",
            "handed on in one process",
            milliseconds(figures["there"]),
            milliseconds(figures["here"]),
            bound=Bound("≤ 30 ms more", 30.0, "more"),
            samples=bench.samples,
        ),
    ]


def handing(cockpit: Cockpit, intent: RunRequest) -> Measure:
    """How long the one call of a run takes that hands a task on."""

    async def once() -> float:
        outcome = await cockpit.launch(intent).wait()
        [row] = cockpit.journal.events(run_id=outcome.run_id, kinds=("tool.finished",))
        if not isinstance(row.event, ToolFinished) or row.event.is_error:
            raise RuntimeError(f"nothing was handed on: {row.event}")
        return row.event.duration

    return once
