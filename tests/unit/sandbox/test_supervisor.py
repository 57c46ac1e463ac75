"""The supervisor by itself: real processes, no guest."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap.request import request_for
from kagura_kernel.sandbox.python_view import PythonView
from kagura_kernel.sandbox.supervisor import launched
from kagura_kernel.sandbox.supervisor.client import Ending, StartRefused, SupervisorClient
from tests.support.control_groups import groups_of

VIEW = PythonView(python="/usr/bin/python3")


@pytest.fixture
async def supervisor() -> AsyncIterator[SupervisorClient]:
    client = SupervisorClient(VIEW.as_setup())
    yield client
    await client.close()


@pytest.fixture
def streams():
    read, write = os.pipe()
    null = os.open("/dev/null", os.O_RDONLY)
    yield null, write, read
    for descriptor in (read, write, null):
        os.close(descriptor)


def request(*argv: str, **more: object) -> dict:
    return {**request_for(BoxSpec(), BoxSpec().limits, "/usr/bin/bwrap", VIEW, copy=False), "argv": list(argv), **more}


async def test_a_command_runs_and_its_end_is_told(supervisor: SupervisorClient, streams) -> None:
    kept = await supervisor.start("box-1", request("/bin/sh", "-c", "echo out; echo err >&2; exit 3"), streams[:2])
    ending = await asyncio.wait_for(kept.gone, 60)
    assert ending == Ending(3, words="err\n")
    assert ending.why == "it ended with exit code 3 (err)"
    assert os.read(streams[2], 100) == b"out\n"


async def test_a_killed_box_is_gone_and_may_be_killed_again(supervisor: SupervisorClient, streams) -> None:
    kept = await supervisor.start("box-1", request("/bin/sleep", "60"), streams[:2])
    supervisor.kill("box-1")
    supervisor.kill("box-1")
    assert (await asyncio.wait_for(kept.gone, 60)).why == "signal 9 ended it"
    supervisor.kill("box-1")
    supervisor.kill("never-there")


async def test_a_start_that_is_called_off_as_it_is_answered_is_called_off(supervisor, streams) -> None:
    await supervisor.start("box-1", request("/bin/true"), streams[:2])

    class Cancelling(dict):
        """Calls the start off when it is answered, just before whoever waits for the answer hears of it."""

        def __setitem__(self, name: str, answer: asyncio.Future) -> None:
            super().__setitem__(name, answer)
            answer.add_done_callback(lambda _: starting.cancel())

    supervisor._starting = Cancelling()
    starting = asyncio.create_task(supervisor.start("box-2", request("/bin/sleep", "60"), streams[:2]))
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with asyncio.timeout(60):
        while len(descendants(supervisor.pid)) > 2:  # noqa: ASYNC110 - /proc tells no news
            await asyncio.sleep(0.05)


async def test_last_words_are_bounded(supervisor: SupervisorClient, streams) -> None:
    script = "yes chatter | head -c 3000000 >&2; echo last words >&2"
    kept = await supervisor.start("box-1", request("/bin/bash", "-c", script), streams[:2])
    ending = await asyncio.wait_for(kept.gone, 60)
    assert len(ending.words) <= 4096


async def test_who_says_too_much_is_cut_off_while_the_next_box_stands_ready(
    supervisor: SupervisorClient, streams
) -> None:
    # The process that will be the next box is made a moment after the start of this one.
    script = "sleep 1; yes chatter | head -c 3000000 >&2"
    kept = await supervisor.start("box-1", request("/bin/bash", "-c", script), streams[:2])
    ending = await asyncio.wait_for(kept.gone, 30)
    assert len(ending.words) <= 4096


async def test_signals_are_as_a_program_expects_them(supervisor: SupervisorClient, streams) -> None:
    kept = await supervisor.start("box-1", request("/bin/grep", "^Sig[BI]", "/proc/self/status"), streams[:2])
    assert (await asyncio.wait_for(kept.gone, 60)).status == 0
    blocked, ignored = (int(word, 16) for word in os.read(streams[2], 1000).split()[1::2])
    # 32 and 33 are the C library's own: it ignores them in whatever it spawns, and no program ever meets them.
    assert (blocked, ignored & ~(0b11 << 31)) == (0, 0)


async def test_no_descriptor_but_the_three_comes_in(supervisor: SupervisorClient, streams) -> None:
    look = "for n in {3..99}; do [ -e /proc/$$/fd/$n ] && ls -l /proc/$$/fd/$n; done; echo done"
    kept = await supervisor.start("box-1", request("/bin/bash", "-c", look), streams[:2])
    await asyncio.wait_for(kept.gone, 60)
    assert os.read(streams[2], 1000) == b"done\n"


async def test_memory_that_runs_out_is_told(supervisor: SupervisorClient, streams) -> None:
    eat = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    kept = await supervisor.start(
        "box-1", request("/usr/bin/python3", "-c", eat, memory_bytes=64 * 2**20, scratch_bytes=2**20), streams[:2]
    )
    ending = await asyncio.wait_for(kept.gone, 60)
    assert ending.status != 0
    if "memory" not in supervisor.uncounted:
        assert ending.out_of_memory
        assert "out of memory" in ending.why


@pytest.mark.parametrize(
    ("more", "part", "word"),
    [
        ({"bwrap": "/nowhere/bwrap"}, "box", "/nowhere/bwrap"),
        ({"workspace": "/nowhere/project"}, "workspace", "No such file"),
        ({"extra": [["/nowhere/data", "/data"]]}, "shown", "/nowhere/data cannot be shown"),
        ({"shown": [["/nowhere/data", "/data", False]]}, "shown", "/nowhere/data cannot be shown"),
        ({"argv": None}, "box", "TypeError"),
    ],
)
async def test_a_box_that_cannot_be_made_says_why(
    supervisor: SupervisorClient, streams, more: dict, part: str, word: str
) -> None:
    with pytest.raises(StartRefused, match=word) as caught:
        await supervisor.start("box-1", request("/bin/true") | more, streams[:2])
    assert caught.value.part == part
    # And the next one is none the worse.
    kept = await supervisor.start("box-2", request("/bin/true"), streams[:2])
    assert (await asyncio.wait_for(kept.gone, 60)).status == 0


async def test_a_limit_that_the_system_refuses_leaves_no_process_and_no_group_behind(
    supervisor: SupervisorClient, streams
) -> None:
    kept = await supervisor.start("box-0", request("/bin/true"), streams[:2])
    await asyncio.wait_for(kept.gone, 60)
    if "pids" in supervisor.uncounted:
        pytest.skip("this system lets nobody here make control groups")
    for number in range(4):
        with pytest.raises(StartRefused):
            await supervisor.start(f"box-{number}", request("/bin/true", processes=-5), streams[:2])
    async with asyncio.timeout(60):
        # The supervisor's other half, and a process that waits to become the next box.
        while len(descendants(supervisor.pid)) > 2 or len({group.name for group in groups_of(supervisor.pid)}) > 1:  # noqa: ASYNC110 - /proc tells no news
            await asyncio.sleep(0.05)


async def test_a_lost_supervisor_ends_its_boxes_and_another_takes_over(supervisor: SupervisorClient, streams) -> None:
    kept = await supervisor.start("box-1", request("/bin/sleep", "60"), streams[:2])
    lost = supervisor.pid
    os.kill(lost, signal.SIGKILL)
    ending = await asyncio.wait_for(kept.gone, 60)
    assert ending.status is None
    assert "killed" in ending.why
    kept = await supervisor.start("box-2", request("/bin/true"), streams[:2])
    assert (await asyncio.wait_for(kept.gone, 60)).status == 0
    assert supervisor.pid != lost


async def test_a_supervisor_asked_to_terminate_frees_everything(supervisor: SupervisorClient, streams) -> None:
    kept = await supervisor.start("box-1", request("/bin/sleep", "60"), streams[:2])
    os.kill(supervisor.pid, signal.SIGTERM)
    assert (await asyncio.wait_for(kept.gone, 60)).status in (None, -9)


async def test_a_supervisor_that_cannot_start_is_an_error() -> None:
    with pytest.raises(SandboxUnavailable, match="does not start"):
        await SupervisorClient(VIEW.as_setup(), "/nowhere/python").start("box-1", request("/bin/true"), ())
    with pytest.raises((SandboxUnavailable, StartRefused), match="gone"):
        await SupervisorClient(VIEW.as_setup(), "/bin/true").start("box-1", request("/bin/true"), ())


@pytest.fixture
def spare() -> Iterator[int]:
    """The process of a supervisor that was started ahead."""
    launched.launch_ahead(VIEW.as_setup())
    launched.launch_ahead(VIEW.as_setup())
    yield launched._spare.launched.process.pid
    launched.end_spare()
    launched.end_spare()


async def test_the_first_box_takes_the_supervisor_that_was_started_ahead(spare: int, supervisor, streams) -> None:
    kept = await supervisor.start("box-1", request("/bin/true"), streams[:2])
    assert (await asyncio.wait_for(kept.gone, 60)).status == 0
    assert supervisor.pid == spare


async def test_a_supervisor_started_ahead_for_something_else_is_ended(spare: int, streams) -> None:
    other = SupervisorClient(VIEW.as_setup("python"))
    try:
        kept = await other.start("box-1", request("/bin/true"), streams[:2])
        assert (await asyncio.wait_for(kept.gone, 60)).status == 0
        assert other.pid != spare
        await ends(spare)
    finally:
        await other.close()


async def test_a_supervisor_started_ahead_that_has_died_is_replaced(spare: int, supervisor, streams) -> None:
    os.kill(spare, signal.SIGKILL)
    await ends(spare)
    kept = await supervisor.start("box-1", request("/bin/true"), streams[:2])
    assert (await asyncio.wait_for(kept.gone, 60)).status == 0


async def test_a_supervisor_started_ahead_ends_with_its_process() -> None:
    program = (
        "import os, signal\n"
        "from kagura_kernel.sandbox.python_view import PythonView\n"
        "from kagura_kernel.sandbox.supervisor import launched\n"
        "launched.launch_ahead(PythonView(python='/usr/bin/python3').as_setup())\n"
        "print(launched._spare.launched.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False)
    await ends(int(done.stdout))


async def ends(pid: int) -> None:
    """Wait until a process is gone, or only waits to be reaped."""
    async with asyncio.timeout(60):
        while is_at_work(pid):  # noqa: ASYNC110 - /proc tells no news
            await asyncio.sleep(0.02)


def is_at_work(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_closing_twice_or_before_anything_began_is_fine(supervisor: SupervisorClient, streams) -> None:
    await supervisor.close()
    kept = await supervisor.start("box-1", request("/bin/sleep", "60"), streams[:2])
    pid = supervisor.pid
    await supervisor.close()
    await supervisor.close()
    assert (await kept.gone).status is None
    assert supervisor.pid is None
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (Ending(0), "it ended with exit code 0"),
        (Ending(-15), "signal 15 ended it"),
        (Ending(137), "signal 9 ended it"),
        (Ending(137, out_of_memory=True), "it ran out of memory"),
        (Ending(1, words="one\ntwo\n"), "it ended with exit code 1 (two)"),
        (Ending(None), "the process that kept it was killed"),
    ],
)
def test_an_end_is_told_in_half_a_sentence(ending: Ending, why: str) -> None:
    assert ending.why == why


def descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [found for child in children for found in (child, *descendants(child))]


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
