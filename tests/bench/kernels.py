"""The kagura kernel beside ipykernel: how soon it answers, and what it costs while nobody asks it anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from tests.bench.harness import Bench, Bound, Line, interleaved, milliseconds
from tests.support.kernel import SPEC

PATIENCE = 60.0
IDLE_SECONDS = 10.0
SETTLED_SECONDS = 3.0
IDLE_SAMPLES = 3

IPYKERNEL = [sys.executable, "-m", "ipykernel_launcher", "-f"]
LOAD = "%load_ext kagura_kernel"


async def kernel_start(bench: Bench) -> list[Line]:
    """From the start of the process to the first answer."""
    figures = await interleaved(
        bench.samples,
        kagura=lambda: asyncio.to_thread(_start, bench.folder, kagura_words()),
        plain=lambda: asyncio.to_thread(_start, bench.folder, IPYKERNEL),
    )
    return [
        Line(
            "`kagura` kernel, from its start to its first answer",
            floor="ipykernel",
            figure=milliseconds(figures["kagura"]),
            floor_figure=milliseconds(figures["plain"]),
            bound=Bound("≤ 1.15 ×", 1.15),
            samples=bench.samples,
        )
    ]


async def idle_kernel(bench: Bench) -> list[Line]:
    """What a kernel that waits holds, and how often it wakes up."""
    samples = min(bench.samples, IDLE_SAMPLES)
    plain = [await asyncio.to_thread(_idle, bench.folder, IPYKERNEL) for _ in range(samples)]
    more = Bound("≤ 80 MB more", 80_000_000 / 2**20, "more")
    lines = []
    for what, words, code in (
        ("an idle kernel with the extension", IPYKERNEL, LOAD),
        ("an idle `kagura` kernel", kagura_words(), ""),
    ):
        found = [await asyncio.to_thread(_idle, bench.folder, words, code) for _ in range(samples)]
        memory, floor = (min(one[0] for one in figures) for figures in (found, plain))
        wakes, often = (min(one[1] for one in figures) for figures in (found, plain))
        lines += [
            Line(f"{what}: memory of its own", "ipykernel", memory, floor, "MiB", more, samples),
            Line(f"{what}: wake-ups a second", "ipykernel", wakes, often, "", Bound("≤ 1 more", 1, "more"), samples),
        ]
    return lines


def kagura_words() -> list[str]:
    """How its kernelspec starts the kernel, up to the connection file."""
    words = json.loads((SPEC / "kernel.json").read_text("utf-8"))["argv"]
    return [sys.executable, *words[1:-1]]


def _start(folder: Path, words: list[str]) -> float:
    began = perf_counter()
    with running(folder, words):
        return perf_counter() - began


def _idle(folder: Path, words: list[str], code: str = "") -> tuple[float, float]:
    """MiB that are the kernel's alone, and how often a second any of its threads woke up."""
    with running(folder, words) as (pid, client):
        if code:
            client.execute(code, reply=True, timeout=PATIENCE)
        sleep(SETTLED_SECONDS)
        before, began = _wakes(pid), perf_counter()
        sleep(IDLE_SECONDS)
        wakes = (_wakes(pid) - before) / (perf_counter() - began)
        return private_kib(pid) / 1024, wakes


@contextmanager
def running(
    folder: Path, words: list[str], home: Path | None = None, more: Mapping[str, str] | None = None
) -> Iterator[tuple[int, Any]]:
    """A kernel that has answered; with a data directory of its own where one is named, and with `more` variables."""
    from jupyter_client.blocking import BlockingKernelClient
    from jupyter_client.connect import write_connection_file

    path, connection = write_connection_file(str(folder / "kernel.json"))
    # Nothing of it goes to this terminal.
    environ = {**os.environ, **({} if home is None else {"KAGURA_HOME": str(home)}), **(more or {})}
    quiet = subprocess.DEVNULL
    kernel = subprocess.Popen([*words, path], cwd=folder, env=environ, stdout=quiet, stderr=quiet)
    client = BlockingKernelClient(connection_file=path)
    try:
        _wait_for_port(int(connection["shell_port"]))
        client.load_connection_file()
        client.start_channels(hb=False)
        client.kernel_info(reply=True, timeout=PATIENCE)
        yield kernel.pid, client
    finally:
        client.stop_channels()
        kernel.kill()
        kernel.wait()
        Path(path).unlink()


def _wait_for_port(port: int) -> None:
    """A client that connects too early tries again only much later."""
    limit = perf_counter() + PATIENCE
    while perf_counter() < limit:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        sleep(0.002)
    raise TimeoutError("the kernel does not listen")


def _wakes(pid: int) -> int:
    """How often threads of a process gave way because they had to wait: each time one woke up before."""
    found = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        counted = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (thread / "status").read_text(), re.MULTILINE)
        found += int(counted[1]) if counted else 0
    return found


def private_kib(pid: int) -> int:
    """Memory of a process that is its alone."""
    told = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    return sum(map(int, re.findall(r"^Private_\w+: +(\d+) kB", told, re.MULTILINE)))
