"""A kernel that dies without a word takes the launcher, the agent and the bridge with it."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kagura_kernel.testing.patience import wait_until
from tests.support.model_script import Silence, calls
from tests.support.model_server import ModelServer

KERNEL = """
import asyncio, sys
from kagura_kernel.brain.kagura_brain import KaguraBrain
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn

async def main():
    async def call(tool_call):
        print("calling", flush=True)
        return await ToolLog(wait=600)(tool_call)
    brain = KaguraBrain({"ANTHROPIC_AUTH_TOKEN": "dummy", "ANTHROPIC_BASE_URL": sys.argv[1]}, "claude")
    async for event in brain.run(a_turn(call)):
        print("event", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("script", "until"),
    [
        pytest.param([Silence()], "", id="while it waits for the model"),
        pytest.param([calls("echo", {"word": "one"})], "calling", id="while a tool runs"),
    ],
)
def test_a_kernel_that_is_killed_takes_every_process_with_it(tmp_path_factory, script, until):
    place = tmp_path_factory.mktemp("k")  # a short path: longer ones than sockets can have are not used
    with ModelServer(script) as server:
        kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL, server.url], stdout=subprocess.PIPE, text=True, env={"TMPDIR": str(place)}
        )
        with kernel:
            assert kernel.stdout is not None
            wait_until(lambda: bool(server.turns))
            while until and kernel.stdout.readline().strip() != until:
                assert kernel.poll() is None
            family = below(kernel.pid)
            assert len(family) >= 3, "the launcher, the agent and the bridge"
            kernel.kill()
        wait_until(lambda: not any(map(is_running, family)))


def below(pid: int) -> set[int]:
    """Every process that this one has started, and that those have."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(FileNotFoundError):  # a thread that has just ended
                new = {int(child) for child in task.read_text().split()} - found
                found |= new
                waiting += new
    return found


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
