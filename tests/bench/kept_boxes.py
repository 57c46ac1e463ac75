"""A cell that goes on in the box of the one before, beside the same cell in a fresh box."""

from __future__ import annotations

import asyncio
import os
from time import perf_counter

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.bench.harness import Bench, Line, Measure, Missing, interleaved, milliseconds
from tests.bench.places import project

_REST = 0.2


async def cell_that_goes_on(bench: Bench) -> list[Line]:
    """From launching it to its outcome; with nothing in it, and with an import that is dear."""
    backend = BubblewrapBackend()
    probe = await backend.probe()
    await backend.close()
    if not probe.ok:
        raise Missing(probe.reason)
    workspace, home = project(bench, "kept"), bench.folder / "keeping"
    home.mkdir(mode=0o700)
    cockpit = make_cockpit({**os.environ, "KAGURA_HOME": str(home)})

    def cell(code: str, *, keep: bool) -> Measure:
        request = RunRequest(code, "python", box="bubblewrap", project=workspace, keep=keep, headless=True)

        async def once() -> float:
            await asyncio.sleep(_REST)
            began = perf_counter()
            outcome = await cockpit.launch(request).wait()
            took = perf_counter() - began
            if outcome.status != "done":
                raise RuntimeError(f"the cell ended as {outcome.status}: {outcome.error}")
            return took

        return once

    lines = []
    try:
        for code in ("pass", "import pandas"):
            await cell(code, keep=True)()
            sides = {"kept": cell(code, keep=True), "fresh": cell(code, keep=False)}
            figures = await interleaved(bench.samples, **sides)
            kept, fresh = milliseconds(figures["kept"]), milliseconds(figures["fresh"])
            what = f"`%%sandbox --keep` with `{code}`, after the first"
            lines.append(Line(what, "the same cell in a fresh box", kept, fresh, samples=bench.samples))
    finally:
        await asyncio.to_thread(cockpit.close)
    return lines
