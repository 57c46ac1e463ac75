"""A command in a box that is warm, beside the same on the host and by `docker exec`; a call of a Python that stays."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from time import perf_counter

from kagura_kernel.domain.commands import Command
from kagura_kernel.runs.exchange import ExchangeDirectory
from kagura_kernel.sandbox.backend import Box
from tests.bench.harness import Bench, Bound, Line, Missing, interleaved, milliseconds
from tests.bench.places import boxes

TRUE = Command(("true",))


async def command_in_a_warm_box(bench: Bench) -> list[Line]:
    """`true`, which costs nothing but the way there and back."""
    lines: list[Line] = []
    async with boxes(bench) as places:
        exec_in_docker = docker_exec(bench, places.docker) if places.docker else None
        for name, box in places.named():
            lines += await _one(bench, name, box, exec_in_docker)
    return lines


async def _one(bench: Bench, name: str, box: Box, exec_in_docker: Callable[[], None] | None) -> list[Line]:
    async def forked() -> float:
        began = perf_counter()
        fork_and_exec()
        return perf_counter() - began

    async def spawned() -> float:
        began = perf_counter()
        subprocess.run(["true"], check=True)  # noqa: ASYNC221 - blocking is what is measured
        return perf_counter() - began

    async def awaited() -> float:
        began = perf_counter()
        process = await asyncio.create_subprocess_exec("true")
        await process.wait()
        return perf_counter() - began

    async def in_the_box() -> float:
        began = perf_counter()
        await box.run(TRUE)
        return perf_counter() - began

    async def by_docker_exec() -> float:
        began = perf_counter()
        if exec_in_docker:
            exec_in_docker()
        return perf_counter() - began

    what = f"command in a warm {name} box"
    samples = bench.samples * 5
    figures = await interleaved(samples, box=in_the_box, forked=forked, awaited=awaited, spawned=spawned)
    # Three ways to start a program from a kernel process, from the plainest to the fastest there is.
    floors = {
        "fork+exec on the host": "forked",
        "asyncio subprocess on the host": "awaited",
        "subprocess.run (vfork) on the host": "spawned",
    }
    box_figure = milliseconds(figures["box"])
    lines = [
        Line(what, floor, box_figure, milliseconds(figures[key]), bound=Bound("≤ 1.2×", 1.2), samples=samples)
        for floor, key in floors.items()
    ]
    beside = "docker exec"
    wanted = Bound("≤ 1/15", 1 / 15)
    if exec_in_docker is None:
        return [*lines, Line(what, beside, bound=wanted, missing=bench.no_daemon)]
    figures = await interleaved(bench.samples, docker=by_docker_exec, box=in_the_box)
    box_ms, docker_ms = milliseconds(figures["box"]), milliseconds(figures["docker"])
    return [*lines, Line(what, beside, box_ms, docker_ms, bound=wanted, samples=bench.samples)]


async def python_that_remembers(bench: Bench) -> list[Line]:
    """A program that does nothing, in the session of a run, beside an interpreter of its own."""
    lines: list[Line] = []
    fresh = Command(("python3", "-c", "pass"))
    async with boxes(bench) as places:
        for name, box in places.named():
            exchange = ExchangeDirectory(box)
            await exchange.lay_out()

            async def call(box: Box = box, exchange: ExchangeDirectory = exchange) -> float:
                began = perf_counter()
                await box.run(await exchange.python_call("call", b"pass"))
                return perf_counter() - began

            async def interpreter(box: Box = box) -> float:
                began = perf_counter()
                await box.run(fresh)
                return perf_counter() - began

            figures = await interleaved(bench.samples, call=call, interpreter=interpreter)
            what = f"python call of a run in a warm {name} box, after its first"
            ms = {key: milliseconds(figure) for key, figure in figures.items()}
            beside = "python3 -c pass in the same box"
            lines.append(Line(what, beside, ms["call"], ms["interpreter"], samples=bench.samples))
            lines.append(Line(what, figure=ms["call"], unit="ms", bound=Bound("≤ 10 ms", 10), samples=bench.samples))
    return lines


def fork_and_exec() -> None:
    """What the words say: this process is copied, and the copy becomes `true`."""
    pid = os.fork()
    if pid == 0:
        try:
            os.execv("/bin/true", ["true"])
        finally:
            os._exit(127)
    os.waitpid(pid, 0)


def docker_exec(bench: Bench, box: Box) -> Callable[[], None]:
    """What a program without a pipe would do: ask the daemon, by its own library."""
    import docker

    client = docker.DockerClient(base_url=bench.docker().host)
    container = client.containers.get(box.id)

    def once() -> None:
        if container.exec_run(["true"]).exit_code != 0:
            raise Missing("docker exec does not work in this container")

    return once
