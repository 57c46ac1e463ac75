"""A replayed run with many tool calls, journal on, beside the same commands in a warm box."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from time import perf_counter

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.brain.cassette import Called, CassetteHeader, entry_line, header_line
from kagura_kernel.brain.provider import BrainDone
from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.bench.harness import Bench, Bound, Line, Missing, interleaved, milliseconds
from tests.bench.places import project, spec

CALLS = 500


def write_cassette(path: Path, calls: int = CALLS) -> Path:
    """A brain that asks for `true`, again and again."""
    asked = [Called((ToolCall(f"call-{number}", "bash", {"command": "true"}),)) for number in range(calls)]
    entries = [entry_line(call) for call in asked]
    lines = [header_line(CassetteHeader(task="bench")), *entries, entry_line(BrainDone(text="done"))]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


async def replayed_run(bench: Bench) -> list[Line]:
    """From launching it to its outcome, with a box of its own."""
    workspace = project(bench, "replayed")
    cassette = write_cassette(bench.folder / "calls.jsonl")
    home = bench.folder / "kagura-home"
    home.mkdir(mode=0o700)
    backend = BubblewrapBackend()
    if not (probe := await backend.probe()).ok:
        await backend.close()
        raise Missing(probe.reason)
    box = await backend.start(spec(workspace))
    cockpit = make_cockpit({**os.environ, "KAGURA_HOME": str(home)})
    intent = RunRequest(
        task="bench",
        replay=cassette,
        box="bubblewrap",
        project=workspace,
        write_mode=WriteMode.NONE,
        headless=True,
        new_session=True,
    )

    async def commands() -> float:
        began = perf_counter()
        for _ in range(CALLS):
            await box.run(shell_command("true"))
        return perf_counter() - began

    async def run() -> float:
        began = perf_counter()
        outcome = await cockpit.launch(intent).wait()
        took = perf_counter() - began
        if outcome.status != "done":
            raise RuntimeError(f"the replayed run ended as {outcome.status}: {outcome.error}")
        return took

    try:
        figures = await interleaved(bench.samples, box=commands, run=run)
    finally:
        await asyncio.to_thread(cockpit.close)
        await backend.close()
    return [
        Line(
            f"replayed run with {CALLS} tool calls, journal on",
            "the same commands in a warm box",
            milliseconds(figures["run"]),
            milliseconds(figures["box"]),
            bound=Bound("≤ 1.7×", 1.7),
            samples=bench.samples,
        )
    ]
