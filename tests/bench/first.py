"""What a person waits for first, as multiples of S: how long `python -c "import sqlalchemy, pydantic"` takes here."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter, sleep

from tests.bench.harness import Bench, Bound, Line, Measure, interleaved, milliseconds
from tests.bench.kernels import IPYKERNEL, LOAD, PATIENCE, running
from tests.bench.replayed import write_cassette

S = '`python -c "import sqlalchemy, pydantic"`'
_OURS = [sys.executable, "-m", "kagura_kernel.cli.main"]
CELL = "%%sandbox\n1"
THINKING = 5.0
"""Seconds in which a person writes the first cell."""
_MOST_KERNELS = 5


async def first_cell(bench: Bench) -> list[Line]:
    """A kernel of its own for each; what an empty data directory adds is compiled once and kept there."""
    samples = min(bench.samples, _MOST_KERNELS)
    used, project = bench.folder / "used", bench.folder / "first"
    project.mkdir()
    await asyncio.to_thread(_first, project, used, 0.0)
    figures = await interleaved(
        samples,
        warm_up=0,
        floor=_program(bench.folder, [sys.executable, "-c", "import sqlalchemy, pydantic"]),
        at_once=lambda: asyncio.to_thread(_first, project, used, 0.0),
        thought=lambda: asyncio.to_thread(_first, project, used, THINKING),
        fresh=lambda: asyncio.to_thread(_first, project, Path(mkdtemp(dir=bench.folder)), 0.0),
        fresh_thought=lambda: asyncio.to_thread(_first, project, Path(mkdtemp(dir=bench.folder)), THINKING),
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


def _first(folder: Path, home: Path, pause: float) -> float:
    """Seconds from the request for the cell to its answer."""
    with running(folder, IPYKERNEL, home) as (_, client):
        client.execute(LOAD, reply=True, timeout=PATIENCE)
        sleep(pause)
        began = perf_counter()
        reply = client.execute(CELL, reply=True, timeout=PATIENCE)
        took = perf_counter() - began
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"the cell failed: {reply['content'].get('evalue', '')}")
    return took


def _program(folder: Path, words: list[str]) -> Measure:
    async def once() -> float:
        began = perf_counter()
        await asyncio.to_thread(subprocess.run, words, cwd=folder, capture_output=True, check=False)
        return perf_counter() - began

    return once
