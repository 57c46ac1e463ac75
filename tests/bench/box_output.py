"""Bytes out of a box, and what they cost the host in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from kagura_kernel.domain.commands import Command, OutputChunk
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box
from tests.bench.harness import Bench, Bound, Line, interleaved
from tests.bench.places import boxes, project

PIECE = 128 * 2**20
WHOLE = 2 * 2**30
NO_LIMITS = CommandLimits(total=None, idle=None)


async def bytes_out_of_a_box(bench: Bench) -> list[Line]:
    """`cat` of a file in the workspace, beside `cat` through a pipe of our own."""
    workspace = project(bench, "large")
    file = workspace / "large.bin"
    file.write_bytes(os.urandom(2**20) * (PIECE // 2**20))
    lines = []
    async with boxes(bench, workspace) as places:
        for name, box in places.named():
            # Memory first: what the other one has made room for would not be counted as growth.
            lines += [await _memory(name, box), await _throughput(bench, name, box, file)]
    return lines


async def _throughput(bench: Bench, name: str, box: Box, file: Path) -> Line:
    async def on_the_host() -> float:
        began = perf_counter()
        cat_on_the_host(file)
        return PIECE / 1e6 / (perf_counter() - began)

    async def out_of_the_box() -> float:
        began = perf_counter()
        result = await box.run(Command(("cat", file.name), limits=NO_LIMITS))
        took = perf_counter() - began
        if result.stdout.total != PIECE:
            raise RuntimeError(f"{result.stdout.total} bytes of {PIECE} came out: {result.stderr.text}")
        return PIECE / 1e6 / took

    figures = await interleaved(bench.samples, host=on_the_host, box=out_of_the_box)
    return Line(
        f"bytes out of a {name} box",
        "`cat` through a pipe",
        figures["box"],
        figures["host"],
        "MB/s",
        Bound("≥ 1/4", 1 / 4, "least"),
        bench.samples,
    )


def cat_on_the_host(file: Path) -> None:
    """The floor: nothing between the program and us but a pipe, nothing done with the bytes."""
    with subprocess.Popen(["cat", str(file)], stdout=subprocess.PIPE) as program:
        assert program.stdout
        while os.read(program.stdout.fileno(), 2**20):
            pass


async def _memory(name: str, box: Box) -> Line:
    seen = 0

    def count(chunk: OutputChunk) -> None:
        nonlocal seen
        seen += len(chunk.data)

    times = WHOLE // PIECE
    command = Command(("bash", "-c", f"for i in $(seq {times}); do cat large.bin; done"), limits=NO_LIMITS)
    peak = peak_memory()
    result = await box.run(command, count)
    grown = peak()
    if not result.stdout.total == seen == WHOLE:
        raise RuntimeError(f"{seen} bytes of {WHOLE} came out: {result.stderr.text}")
    what = f"host memory while 2 GiB come out of a {name} box"
    return Line(what, figure=grown / 2**20, unit="MiB", bound=Bound("≤ 64 MiB", 64), samples=1)


def peak_memory(process: int | str = "self") -> Callable[[], int]:
    """Start to watch a process; the answer tells by how many bytes it had grown at its largest since."""
    Path(f"/proc/{process}/clear_refs").write_text("5", "ascii")
    before = _status(process, "VmRSS")
    return lambda: max(0, _status(process, "VmHWM") - before)


def _status(process: int | str, name: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text("ascii", "replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)
