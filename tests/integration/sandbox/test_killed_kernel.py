"""A kernel, or its supervisor, that is killed outright leaves nothing of its boxes behind."""

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.supervisor import cgroups
from kagura_kernel.sandbox.supervisor.cgroups import Tree, group_name, make_group, process_namespace, sweep
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.patience import eventually, wait_until
from tests.support.control_groups import groups_of, here

KERNEL = """
import asyncio, os, sys, time
from pathlib import Path
from kagura_kernel.domain.commands import CommandLimits, shell_command
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend

async def main():
    backend = BubblewrapBackend()
    boxes = [await backend.start(BoxSpec(workspace=Path(sys.argv[1]))) for _ in range(2)]
    line = f"(setsid sleep {sys.argv[2]} &); sleep {sys.argv[2]}"
    running = [box.run(shell_command(line, limits=CommandLimits(None, None))) for box in boxes]
    # A copy of the kernel, as multiprocessing makes them, holds every descriptor that the kernel holds.
    copy = os.fork() if "fork" in sys.argv else 0
    if "fork" in sys.argv and copy == 0:
        time.sleep(60)
        os._exit(0)
    print(backend._supervisor.pid, copy, flush=True)
    await asyncio.gather(*running)

asyncio.run(main())
"""


@pytest.fixture
def kernel(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that runs a marked command in two boxes, and the mark."""
    marker = str(secrets.randbelow(10**8) + 10**8)
    project = tmp_path / "project"
    project.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KERNEL), str(project), marker, *getattr(request, "param", ())],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process, marker
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("kernel", [(), ("fork",)], ids=["alone", "with a copy"], indirect=True)
def test_a_killed_kernel_leaves_no_process_and_no_group(kernel):
    process, marker = kernel
    supervisor, copy = map(int, process.stdout.readline().split())
    # Two sleeps in each box, beside the kernel itself.
    wait_until(lambda: len(processes_with(marker)) >= 5)
    assert groups_of(supervisor) or not here().homes
    process.kill()
    try:
        wait_until(lambda: set(processes_with(marker)) <= {copy})
        wait_until(lambda: not is_running(supervisor))
        assert groups_of(supervisor) == []
    finally:
        if copy:
            os.kill(copy, signal.SIGKILL)


def test_a_killed_supervisor_takes_its_boxes_along(kernel):
    process, marker = kernel
    supervisor, _ = map(int, process.stdout.readline().split())
    wait_until(lambda: len(processes_with(marker)) >= 5)
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in processes_with(marker) if pid != process.pid])
    # The kernel was told as well, and ended with an error of its own.
    assert process.wait(60) != 0


async def test_a_lost_supervisor_is_replaced_and_what_it_left_is_swept(tmp_path):
    backend = BubblewrapBackend()
    try:
        box = await backend.start(BoxSpec(workspace=tmp_path))
        lost = backend._supervisor.pid
        os.kill(lost, signal.SIGKILL)
        assert "killed" in await asyncio.wait_for(box.wait_closed(), 60)
        with pytest.raises(SandboxDied):
            await box.run(shell_command("true"))
        await box.close()
        again = await backend.start(BoxSpec(workspace=tmp_path))
        assert (await again.run(shell_command("echo well"))).stdout.text == "well\n"
        assert backend._supervisor.pid != lost
    finally:
        await backend.close()

    # Processes that are killed with their supervisor may outlive its sweep; a later one finds their groups empty.
    def swept() -> bool:
        cgroups.sweep(here(), cgroups.process_namespace())
        return groups_of(lost) == []

    await eventually(swept)


async def test_closing_the_back_end_leaves_nothing(tmp_path):
    backend = BubblewrapBackend()
    before = open_files()
    boxes = await asyncio.gather(*(backend.start(BoxSpec(workspace=tmp_path)) for _ in range(3)))
    supervisor = backend._supervisor.pid
    assert groups_of(supervisor) or not here().homes
    await backend.close()
    assert all([await box.wait_closed() == "" for box in boxes])
    assert not is_running(supervisor)
    assert groups_of(supervisor) == []
    assert open_files() == before


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.005, 0.01, 0.02, 0.03])
async def test_cancelling_a_start_leaves_nothing(tmp_path, delay):
    backend = BubblewrapBackend()
    try:
        await (await backend.start(BoxSpec(workspace=tmp_path))).close()
        before = open_files()
        starting = asyncio.create_task(backend.start(BoxSpec(workspace=tmp_path)))
        await asyncio.sleep(delay)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).close()
        supervisor = backend._supervisor.pid
        # What may stay is the supervisor proper and one seed of the next box.
        await eventually(lambda: len(descendants_of(supervisor)) <= 2 and open_files() == before)
    finally:
        await backend.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def descendants_of(pid: int) -> list[int]:
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(below for child in children for below in descendants_of(child))]


ENTER = """
import sys, time
with open(sys.argv[1] + "/cgroup.procs", "w") as file:
    file.write("0")
print("entered", flush=True)
time.sleep(600)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A group of our own in the unified tree."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    point = next((fields[1] for fields in mounts if fields[2] == "cgroup2"), None)
    if point is None or not os.access(point, os.W_OK):
        pytest.skip("needs the unified tree of control groups, writable")
    made = Path(point) / f"test-{secrets.token_hex(6)}"
    made.mkdir()
    yield made
    for group in made.iterdir():
        if group.is_dir():
            group.rmdir()
    made.rmdir()


def a_dead_process() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def test_what_a_lost_keeper_left_behind_is_killed_in_one_stroke_children_too(home):
    tree = Tree(2, {"memory": str(home)})
    lost = make_group(tree, group_name(process_namespace(), a_dead_process(), 1))
    ours = make_group(tree, group_name(process_namespace(), os.getpid(), 1))
    started = [
        subprocess.Popen([sys.executable, "-c", ENTER, group.directories[0]], stdout=subprocess.PIPE)
        for group in (lost, ours)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"entered\n"
        sweep(tree, process_namespace())
        assert started[0].wait(30) == -signal.SIGKILL
        assert started[1].poll() is None
    finally:
        for process in started:
            process.kill()
            process.communicate()
    # A group lives on for a moment after its last process.
    give_up = time.monotonic() + 30
    while not (lost.remove() and ours.remove()) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert lost.remove()
    assert ours.remove()
    assert [entry for entry in home.iterdir() if entry.is_dir()] == []


def test_a_group_with_a_process_in_it_is_not_gone(home):
    group = make_group(Tree(2, {"memory": str(home)}), "kagura-1-1")
    process = subprocess.Popen([sys.executable, "-c", ENTER, group.directories[0]], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"entered\n"
        assert not group.remove()
        assert not group.out_of_memory()
    finally:
        process.kill()
        process.communicate()
    give_up = time.monotonic() + 30
    while not group.remove() and time.monotonic() < give_up:
        time.sleep(0.02)
    assert group.remove()
