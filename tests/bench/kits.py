"""A kit of fifty skills and a thousand files: planned and staged, anew and unchanged, beside copying the same files."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter

from kagura_kernel.kit.definitions.references import ResolvedAgent
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.kit.staging.plan import plan_kit
from kagura_kernel.kit.staging.stage import build_kit
from tests.bench.harness import Bench, Bound, Line, interleaved, milliseconds
from tests.support.kit_rig import HomeRig
from tests.support.redactors import shared_redactor

SKILLS = 50
FILES = 20

_REST = 0.1
"""Longer than the ticks in which a file system counts time, so that nothing counts as just written."""


async def kit_staged(bench: Bench) -> list[Line]:
    """From the plan to the kit that a box can mount, with rules of redaction that are compiled already."""
    rig = _home(bench.folder / "kits")
    agent = rig.agent()
    redactor = shared_redactor()
    await asyncio.to_thread(redactor.redact, "password: not yet compiled")
    anew = (bench.folder / f"anew-{number}" for number in itertools.count())
    copies = (bench.folder / f"copy-{number}" for number in itertools.count())
    await asyncio.to_thread(_build, rig, agent, rig.root, redactor)

    async def copy() -> float:
        return await _timed(lambda: shutil.copytree(rig.home / ".agents", next(copies)))

    async def cold() -> float:
        root = next(anew)
        took = await _timed(lambda: _build(rig, agent, root, redactor))
        shutil.rmtree(root)
        return took

    async def unchanged() -> float:
        return await _timed(lambda: _build(rig, agent, rig.root, redactor))

    figures = await interleaved(bench.samples, copy=copy, cold=cold, unchanged=unchanged)
    ms = {name: milliseconds(figure) for name, figure in figures.items()}
    what = f"kit of {SKILLS} skills and {SKILLS * FILES:,} files planned and staged"
    return [
        Line(what, "copying the files", ms["cold"], ms["copy"], samples=bench.samples),
        Line(f"{what}, by itself", figure=ms["cold"], bound=Bound("≤ 2,000 ms", 2000), samples=bench.samples),
        Line(f"{what}, unchanged", figure=ms["unchanged"], bound=Bound("≤ 100 ms", 100), samples=bench.samples),
    ]


def _home(base: Path) -> HomeRig:
    rig = HomeRig(base)
    random = Random(7)
    for number in range(SKILLS):
        texts = {
            f"scripts/step_{file}.py": "".join(f"value_{line} = scale({random.random()})\n" for line in range(80))
            for file in range(FILES - 1)
        }
        rig.skill(f"skill-{number}", texts)
    return rig


def _build(rig: HomeRig, agent: ResolvedAgent, root: Path, redactor: Redactor) -> None:
    build_kit(plan_kit(agent, rig.where), root, redactor).close()


async def _timed(work: Callable[[], object]) -> float:
    await asyncio.sleep(_REST)
    began = perf_counter()
    await asyncio.to_thread(work)
    return perf_counter() - began
