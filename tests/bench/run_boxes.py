"""What a membrane adds to the start of a run: from asking for a box to the end of its first command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from kagura_kernel.domain.commands import Command
from kagura_kernel.sandbox.backend import Box
from tests.bench.harness import Bench, Line, Measure, interleaved, milliseconds
from tests.bench.leases import GRANTS, SECRETS, providers
from tests.bench.membrane_boxes import Membranes, bubblewrap, membranes, opened

TRUE = Command(("true",))
_REST = 0.2


async def membrane_opened(bench: Bench) -> list[Line]:
    """With nothing granted but asking, as by default; with a host; and with leases."""
    async with membranes(bench, providers(1), SECRETS) as made, bubblewrap(bench) as start:
        figures = await interleaved(
            bench.samples,
            bare=_first_command(start),
            usual=_first_command(start, made, net=("ask",)),
            forwarding=_first_command(start, made, net=("127.0.0.1:5432",)),
            leased=_first_command(start, made, credentials=GRANTS),
        )
    ms = {name: milliseconds(figure) for name, figure in figures.items()}
    return [
        Line(f"box started and first command done, {what}", "without a membrane", ms[side], ms["bare"], samples=samples)
        for what, side in (
            ("behind a membrane", "usual"),
            ("with a port of this machine", "forwarding"),
            (f"with {len(GRANTS)} leases", "leased"),
        )
        for samples in (bench.samples,)
    ]


def _first_command(
    start: Callable[[], Awaitable[Box]],
    made: Membranes | None = None,
    net: tuple[str, ...] = (),
    credentials: tuple[str, ...] = (),
) -> Measure:
    async def once() -> float:
        # As for every start: what the last box left to do is not what this one costs.
        await asyncio.sleep(_REST)
        began = perf_counter()
        box = await start()
        try:
            if made is None:
                await box.run(TRUE)
                return perf_counter() - began
            async with opened(made.make(net, credentials), box) as inside:
                await inside.run(TRUE)
                return perf_counter() - began
        finally:
            await box.close()

    return once
