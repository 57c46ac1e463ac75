"""What a further directory of the host adds to the start of a box: 1,000 files of a few kilobytes, read-only."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from kagura_kernel.sandbox.backend import SandboxBackend
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.gvisor import RunscBackend
from tests.bench.harness import Bench, Line, Measure, Missing, interleaved, milliseconds
from tests.bench.places import docker_backend, spec

_REST = 0.2


async def further_directory_shown(bench: Bench) -> list[Line]:
    """Beside the same box without it; through Docker also when its content is new and has to be sent."""
    folder = _folder(bench)
    lines: list[Line] = []
    made: list[tuple[str, SandboxBackend]] = [("bubblewrap", BubblewrapBackend()), ("runsc", RunscBackend())]
    if bench.daemon:
        made.append(("docker", docker_backend(bench)))
    for name, backend in made:
        sides = {"floor": _starting(backend, None), "there": _starting(backend, folder)}
        if name == "docker":
            sides["new"] = _starting(backend, folder, changing=True)
        try:
            if not (await backend.probe()).ok:
                continue
            figures = await interleaved(bench.samples, **sides)
        finally:
            await backend.close()
        floor = milliseconds(figures.pop("floor"))
        for side, found in figures.items():
            what = f"{name} box with 1,000 files of the host" + (", sent for the first time" if side == "new" else "")
            lines.append(Line(what, "the same box without them", milliseconds(found), floor, samples=bench.samples))
    if not lines:
        raise Missing("no box starts here")
    return lines


def _folder(bench: Bench) -> Path:
    root = (bench.folder / "further").resolve()
    for number in range(1000):
        place = root / f"skill{number // 20}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"file{number}.md").write_text(f"a line of text {number}\n" * 200, "utf-8")
    return root


def _starting(backend: SandboxBackend, folder: Path | None, *, changing: bool = False) -> Measure:
    """One start of a box; ending it is not counted, nor is the change before it."""
    pairs = ((folder, "/kagura/further"),) if folder else ()
    numbers = itertools.count()

    async def once() -> float:
        await asyncio.sleep(_REST)
        if changing and folder is not None:
            (folder / "number").write_text(f"{next(numbers)}\n", "utf-8")
        began = perf_counter()
        box = await backend.start(replace(spec(None), extra_read_only=pairs))
        took = perf_counter() - began
        await box.close()
        return took

    return once
