"""A call from a program in a box to a plugin in its jail and back, each of them a row, beside bare commands."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.identity import new_run_id, new_session_id
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.calls import CallLimits
from kagura_kernel.plugins.guest_calls import GuestCalls
from kagura_kernel.plugins.jail.box import JailParts
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.permissions import JailPlan
from kagura_kernel.runs.plugins import connect
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.bench.commands import TRUE
from tests.bench.contenders import PROGRAMS
from tests.bench.harness import Bench, Bound, Line, Missing, interleaved, milliseconds
from tests.bench.places import project, spec
from tests.support.jails import NAME, one_module, small_content, small_manifest
from tests.support.plugins import UnmanagedPlugin

CALLER = PROGRAMS / "plugged.py"
CALLS = 200
THREADS = 4

Calls = Callable[[int, int], Awaitable[float]]
"""Makes so many calls in so many threads; seconds that they took."""


async def plugin_called_from_a_box(bench: Bench) -> list[Line]:
    """There and back, one after the other and several at once, and what a shell pays."""
    async with _plugged(bench) as (box, call, shell):

        async def one_call() -> float:
            return await call(CALLS, 1) / CALLS

        async def command() -> float:
            began = perf_counter()
            await box.run(TRUE)
            return perf_counter() - began

        async def python() -> float:
            return await _took(box, Command(("python3", "-c", "pass")))

        async def by_shell() -> float:
            return await _took(box, shell)

        async def together() -> float:
            return CALLS / await call(CALLS, THREADS)

        figures = await interleaved(
            bench.samples, call=one_call, command=command, python=python, shell=by_shell, rate=together
        )
    samples = bench.samples
    return [
        Line(
            "call of a plugin from a box, and back",
            "command in a warm bubblewrap box",
            milliseconds(figures["call"]),
            milliseconds(figures["command"]),
            bound=Bound("≤ 2×", 2.0),
            samples=samples,
        ),
        Line(
            "kagura-host in a shell",
            "python3 -c pass in the same box",
            milliseconds(figures["shell"]),
            milliseconds(figures["python"]),
            samples=samples,
        ),
        Line(
            f"calls a second through one plugin, {THREADS} threads",
            figure=figures["rate"],
            unit="/s",
            bound=Bound("≥ 500/s", 500.0, "least"),
            samples=samples,
        ),
    ]


async def _took(box: Box, command: Command) -> float:
    began = perf_counter()
    result = await box.run(command)
    if not result.ok:
        raise RuntimeError(f"it failed in the box: {result.stderr.text.strip()[-300:]}")
    return perf_counter() - began


@asynccontextmanager
async def _plugged(bench: Bench) -> AsyncIterator[tuple[Box, Calls, Command]]:
    """A box beside a jail, calls from one to the other, and the command by which a shell makes one."""
    folder = bench.folder / "plugged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    workspace = project(bench, "plugging")
    shutil.copy(CALLER, workspace)
    backend = BubblewrapBackend()
    journal = Journal.open(folder)
    try:
        if not (probe := await backend.probe()).ok:
            raise Missing(probe.reason)
        content = small_content(one_module({"echo(value)": "value"}))
        jail = await Jail.start(NAME, content, small_manifest(), JailPlan(), JailParts(backend.start))
        plugin = UnmanagedPlugin(jail)
        recorder = Recorder(journal, journal.clock, new_run_id(), new_session_id())
        # Measured is the way, not how many a run may go it.
        calls = GuestCalls([plugin], recorder.record, limits=CallLimits(rate=1e6, burst=10**6, total=10**9))
        box = await backend.start(spec(workspace))
        failures: list[BaseException] = []
        env = (await connect(box, [plugin], calls, failures.append))[1].variables()

        async def call(count: int, threads: int) -> float:
            words = ("python3", CALLER.name, str(count), str(threads))
            result = await box.run(Command(words, env=env, limits=CommandLimits(None, None)))
            if not result.ok or failures:
                raise RuntimeError(f"the calls failed: {result.stderr.text.strip()[-300:]}{failures}")
            return float(result.stdout.text)

        yield box, call, Command(("kagura-host", "small", "echo", "1"), env=env)
        await calls.close()
        await jail.close()
    finally:
        await backend.close()
        journal.close()
