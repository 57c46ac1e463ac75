"""What a person waits for first, as multiples of S: how long `python -c "import sqlalchemy, pydantic"` takes here."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter, sleep
from typing import NamedTuple

from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn
from tests.bench.harness import Bench, Bound, Line, Measure, interleaved, milliseconds
from tests.bench.kernels import IPYKERNEL, LOAD, PATIENCE, running
from tests.bench.replayed import write_cassette
from tests.support.model_script import ModelTurn, says
from tests.support.model_server import ModelServer

S = '`python -c "import sqlalchemy, pydantic"`'
_OURS = [sys.executable, "-m", "kagura_kernel.cli.main"]
CELL = "%%sandbox\n1"
THINKING = 5.0
"""Seconds in which a person writes the first cell."""
_MOST_KERNELS = 5
_NO_DOCKER = {"DOCKER_HOST": "unix:///var/run/nobody-listens.sock"}
"""Why a box is not Docker's is told with this name; the one that chance draws for the benchmark looks like a secret."""


async def first_cell(bench: Bench) -> list[Line]:
    """A kernel of its own for each; what an empty data directory adds is compiled once and kept there."""
    samples = min(bench.samples, _MOST_KERNELS)
    used, project = bench.folder / "used", bench.folder / "first"
    project.mkdir()

    async def seconds(home: Path, pause: float) -> float:
        return (await asyncio.to_thread(_first, project, home, pause)).seconds

    await seconds(used, 0.0)
    figures = await interleaved(
        samples,
        warm_up=0,
        floor=_program(bench.folder, [sys.executable, "-c", "import sqlalchemy, pydantic"]),
        at_once=lambda: seconds(used, 0.0),
        thought=lambda: seconds(used, THINKING),
        fresh=lambda: seconds(Path(mkdtemp(dir=bench.folder)), 0.0),
        fresh_thought=lambda: seconds(Path(mkdtemp(dir=bench.folder)), THINKING),
    )
    rows = (
        ("at once", "at_once", 1.5),
        (f"after {THINKING:g} s", "thought", 1.5),
        ("at once, fresh data directory", "fresh", 2.5),
        (f"after {THINKING:g} s, fresh data directory", "fresh_thought", 2.5),
    )
    return [
        _beside_s(f"first `%%sandbox` of a kernel, {what}", figures, side, bar, samples) for what, side, bar in rows
    ]


async def first_run(bench: Bench) -> list[Line]:
    """After a person has thought: a recorded run to its end, and one of Claude to the request that leaves.

    What the Claude program takes from its start to that request is measured by itself, and taken off.
    """
    samples = min(bench.samples, _MOST_KERNELS)
    used, project = bench.folder / "used-runs", bench.folder / "first-run"
    project.mkdir()
    cassette = write_cassette(bench.folder / "first.jsonl", calls=1)
    replay = f"%%kagura --replay {cassette}\ngo on"
    left: list[float] = []

    def answer(_: object) -> ModelTurn:
        left.append(perf_counter())
        return says("Done.")

    with ModelServer(answer) as server:
        service = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "dummy"}
        brain = ClaudeBrain({**os.environ, **service}, bench.folder / "claude")

        async def program() -> float:
            left.clear()
            began = perf_counter()
            async for _ in brain.run(a_turn(ToolLog())):
                pass
            return left[0] - began

        def asked() -> float:
            left.clear()
            began = _first(project, used, THINKING, "%%kagura\nSay that you are done.", service).began
            return left[0] - began

        await asyncio.to_thread(_first, project, used, 0.0, replay)
        figures = await interleaved(
            samples,
            warm_up=1,
            floor=_program(bench.folder, [sys.executable, "-c", "import sqlalchemy, pydantic"]),
            replay=lambda: asyncio.to_thread(lambda: _first(project, used, THINKING, replay).seconds),
            asked=lambda: asyncio.to_thread(asked),
            program=program,
        )
    figures["asked"] -= figures["program"]
    rows = (("`%%kagura --replay` of a kernel", "replay"), ("`%%kagura`, to its request, beyond the program", "asked"))
    return [_beside_s(f"first {what}, after {THINKING:g} s", figures, side, 2.0, samples) for what, side in rows]


async def commands_of_a_terminal(bench: Bench) -> list[Line]:
    """From the shell's fork to the end of the process, with a journal that holds one run."""
    folder = bench.folder / "terminal"
    folder.mkdir()
    replayed = ["run", "--replay", str(write_cassette(bench.folder / "once.jsonl", calls=1)), "go on"]
    bars = {"runs": 1.1, "cost": 1.1, "approvals": 1.1, "status": 1.1, "doctor": 3.0, "run --replay": 2.0}
    words = {name: replayed if name == "run --replay" else [name] for name in bars}
    await _program(folder, [*_OURS, *replayed])()
    figures = await interleaved(
        bench.samples,
        floor=_program(folder, [sys.executable, "-c", "import sqlalchemy, pydantic"]),
        **{name: _program(folder, [*_OURS, *words[name]]) for name in bars},
    )
    return [_beside_s(f"`kagura-kernel {name}`", figures, name, bar, bench.samples) for name, bar in bars.items()]


def _beside_s(what: str, figures: dict[str, float], side: str, bar: float, samples: int) -> Line:
    return Line(
        what,
        S,
        milliseconds(figures[side]),
        milliseconds(figures["floor"]),
        bound=Bound(f"≤ {bar:g}×", bar),
        samples=samples,
    )


class Took(NamedTuple):
    """When a cell was sent, and how long its answer took, by `perf_counter`."""

    began: float
    seconds: float


def _first(folder: Path, home: Path, pause: float, cell: str = CELL, more: Mapping[str, str] | None = None) -> Took:
    """The first cell of a kernel of its own; `more` are variables that it has."""
    with running(folder, IPYKERNEL, home, {**_NO_DOCKER, **(more or {})}) as (_, client):
        client.execute(LOAD, reply=True, timeout=PATIENCE)
        sleep(pause)
        began = perf_counter()
        reply = client.execute(cell, reply=True, timeout=PATIENCE)
        took = perf_counter() - began
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"the cell failed: {reply['content'].get('evalue', '')}")
    return Took(began, took)


def _program(folder: Path, words: list[str]) -> Measure:
    async def once() -> float:
        began = perf_counter()
        await asyncio.to_thread(subprocess.run, words, cwd=folder, capture_output=True, check=False)
        return perf_counter() - began

    return once
