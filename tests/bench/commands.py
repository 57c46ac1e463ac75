"""A command in a box that is warm, beside the same on the host and by `docker exec`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from time import perf_counter

from kagura_kernel.domain.commands import Command
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
    async def on_the_host() -> float:
        began = perf_counter()
        subprocess.run(["true"], check=True)  # noqa: ASYNC221 - blocking is what is measured
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

    figures = await interleaved(bench.samples * 5, host=on_the_host, box=in_the_box)
    what = f"command in a warm {name} box"
    line = Line(
        what,
        "fork+exec on the host",
        milliseconds(figures["box"]),
        milliseconds(figures["host"]),
        bound=Bound("≤ 1.2×", 1.2),
        samples=bench.samples * 5,
    )
    beside = "docker exec"
    wanted = Bound("≤ 1/15", 1 / 15)
    if exec_in_docker is None:
        return [line, Line(what, beside, bound=wanted, missing=bench.no_daemon)]
    figures = await interleaved(bench.samples, docker=by_docker_exec, box=in_the_box)
    box_ms, docker_ms = milliseconds(figures["box"]), milliseconds(figures["docker"])
    return [line, Line(what, beside, box_ms, docker_ms, bound=wanted, samples=bench.samples)]


def docker_exec(bench: Bench, box: Box) -> Callable[[], None]:
    """What a program without a pipe would do: ask the daemon, by its own library."""
    import docker

    client = docker.DockerClient(base_url=bench.docker().host)
    container = client.containers.get(box.id)

    def once() -> None:
        if container.exec_run(["true"]).exit_code != 0:
            raise Missing("docker exec does not work in this container")

    return once
