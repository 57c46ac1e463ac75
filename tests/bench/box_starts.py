"""How long until a box takes its first command, beside the least that the same tool needs to run anything."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from kagura_kernel.sandbox.backend import Probe, SandboxBackend
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.docker.flags import create_body
from kagura_kernel.sandbox.gvisor import RunscBackend
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.sandbox.python_view import current_view
from kagura_kernel.sandbox.supervisor.arguments import Staged, bwrap_arguments
from kagura_kernel.sandbox.supervisor.etc import write_etc
from kagura_kernel.sandbox.supervisor.seccomp import filter_program
from tests.bench.harness import Bench, Bound, Line, Measure, Missing, interleaved, milliseconds
from tests.bench.places import docker_backend, project, spec
from tests.support.docker_images import PYTHON

_REST = 0.2


def starting(backend: SandboxBackend, workspace: Path) -> Measure:
    """One start of a box; ending it is not counted."""

    async def once() -> float:
        # Boxes are not started back to back: what the last one left to do behind it is not what a start costs.
        await asyncio.sleep(_REST)
        began = perf_counter()
        box = await backend.start(spec(workspace))
        took = perf_counter() - began
        await box.close()
        if isinstance(backend, WarmPool):
            await backend.settled()
        return took

    return once


async def bubblewrap_box_ready(bench: Bench) -> list[Line]:
    """Cold, with an overlay over a small project."""
    program = shutil.which("bwrap")
    if program is None:
        raise Missing("bubblewrap is not installed")
    workspace = project(bench)
    backend = BubblewrapBackend()
    try:
        if not (probe := await backend.probe()).ok:
            raise Missing(probe.reason)
        line = bare_bubblewrap(program, bench.folder / "bare", workspace)
        figures = await interleaved(bench.samples, floor=line, box=starting(backend, workspace))
    finally:
        await backend.close()
    return [
        Line(
            "bubblewrap box ready for its first command",
            "the same bwrap line running `python3 -I -S -c pass`",
            milliseconds(figures["box"]),
            milliseconds(figures["floor"]),
            bound=Bound("≤ 1.5×", 1.5),
            samples=bench.samples,
        )
    ]


def bare_bubblewrap(program: str, folder: Path, workspace: Path) -> Measure:
    """The command line of a box, with plain directories in place of what the keeper stages."""
    for name in ("etc", "scratch/tmp", "scratch/home", "scratch/shm"):
        (folder / name).mkdir(parents=True)
    write_etc(str(folder / "etc"))
    (folder / "empty").touch()
    view = current_view(workspace)
    staged = Staged(
        etc=str(folder / "etc"),
        empty=str(folder / "empty"),
        scratch=str(folder / "scratch"),
        workspace=str(workspace),
        python=tuple((path, path) for path in view.directories),
        python_links=view.links,
        python_hidden=view.hidden,
        shims=tuple((name, view.python) for name in ("python", "python3")),
    )
    filter_fd = os.memfd_create("filter", 0)
    os.write(filter_fd, filter_program())
    words = bwrap_arguments(staged, [view.python, "-I", "-S", "-c", "pass"], seccomp_fd=filter_fd)

    async def once() -> float:
        os.lseek(filter_fd, 0, os.SEEK_SET)
        began = perf_counter()
        subprocess.run([program, *words], check=True, pass_fds=(filter_fd,))  # noqa: ASYNC221 - it is what is measured
        return perf_counter() - began

    return once


async def cold_and_warm(
    samples: int, backend: SandboxBackend, pool: WarmPool, workspace: Path, floor: Callable[[Probe], Measure]
) -> dict[str, float]:
    """A back-end and a warm pool beside their floor, which may depend on what a probe says; both are closed."""
    try:
        if not (probe := await backend.probe()).ok:
            raise Missing(probe.reason)
        return await interleaved(
            samples, floor=floor(probe), cold=starting(backend, workspace), warm=starting(pool, workspace)
        )
    finally:
        await pool.close()
        await backend.close()


async def docker_box_ready(bench: Bench) -> list[Line]:
    """Cold and from the warm pool, beside `docker run` with the same flags."""
    backend, pool = docker_backend(bench), WarmPool(docker_backend(bench), size=1)
    figures = await cold_and_warm(bench.samples, backend, pool, project(bench), lambda _: docker_run(bench))
    return [
        Line(
            what,
            "hardened `docker run … true`",
            milliseconds(figures[side]),
            milliseconds(figures["floor"]),
            bound=bound,
            samples=bench.samples,
        )
        for what, side, bound in (
            ("docker box ready, cold", "cold", Bound("≤ 1.1×", 1.1)),
            ("docker box ready, from the warm pool", "warm", Bound("≤ 1/8", 1 / 8)),
        )
    ]


async def gvisor_box_ready(bench: Bench) -> list[Line]:
    """By runsc alone, cold and from the warm pool, beside runsc with nothing of ours around it."""
    program = shutil.which("runsc")
    if program is None:
        raise Missing("runsc is not installed (Debian: `apt install runsc`)")
    backend, pool = RunscBackend(program=program), WarmPool(RunscBackend(program=program), size=1)
    samples = max(3, bench.samples // 2)
    figures = await cold_and_warm(
        samples, backend, pool, project(bench), lambda probe: runsc_do(program, platform=probe.reason.split()[-1])
    )
    return [
        Line(
            what,
            "the same runsc: `runsc do true`",
            milliseconds(figures[side]),
            milliseconds(figures["floor"]),
            samples=samples,
        )
        for what, side in (("gVisor box ready, cold", "cold"), ("gVisor box ready, from the warm pool", "warm"))
    ]


def runsc_do(program: str, platform: str) -> Measure:
    """The way of runsc itself to run one program: on the whole system, without a box around it."""
    words = [program, "--network=none", f"--platform={platform}", "--ignore-cgroups"]
    words += [*([] if os.geteuid() == 0 else ["--rootless"]), "do", "true"]

    async def once() -> float:
        began = perf_counter()
        answer = subprocess.run(words, check=False, capture_output=True, text=True)  # noqa: ASYNC221 - likewise
        took = perf_counter() - began
        if answer.returncode:
            raise Missing(f"runsc do failed: {answer.stderr.strip()[-200:]}")
        return took

    return once


def docker_run(bench: Bench) -> Measure:
    """Docker's own program, with the flags of our boxes."""
    program = shutil.which("docker")
    if program is None:
        raise Missing("there is no docker program (Debian 13: docker-cli)")
    words = [program, "--host", bench.docker().host, "run", *_flags(bench), PYTHON, "true"]

    async def once() -> float:
        began = perf_counter()
        answer = subprocess.run(words, check=False, capture_output=True, text=True)  # noqa: ASYNC221 - likewise
        took = perf_counter() - began
        if answer.returncode:
            raise Missing(f"docker run failed: {answer.stderr.strip()[-200:]}")
        return took

    return once


def _flags(bench: Bench) -> list[str]:
    """The body of our create call as words of the docker program."""
    body = create_body(spec(None), PYTHON, ["true"], {}, os.cpu_count() or 1)
    host = body["HostConfig"]
    profile = bench.folder / "seccomp.json"
    (wanted,) = (option for option in host["SecurityOpt"] if option.startswith("seccomp="))
    profile.write_text(json.dumps(json.loads(wanted.removeprefix("seccomp="))), "utf-8")
    return [
        *("--rm", "--init", "--interactive", "--network", "none", "--user", body["User"], "--workdir", "/"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges:true", "--security-opt", f"seccomp={profile}"),
        *("--read-only", "--log-driver", "none", "--no-healthcheck", "--pids-limit", str(host["PidsLimit"])),
        *("--memory", str(host["Memory"]), "--memory-swap", str(host["MemorySwap"])),
        *("--cpus", str(host["NanoCpus"] / 1e9), "--shm-size", str(host["ShmSize"])),
        *(word for path, options in host["Tmpfs"].items() for word in ("--tmpfs", f"{path}:{options}")),
        *(
            word
            for limit in host["Ulimits"]
            for word in ("--ulimit", f"{limit['Name']}={limit['Soft']}:{limit['Hard']}")
        ),
    ]
