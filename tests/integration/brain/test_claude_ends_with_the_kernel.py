"""A kernel that dies without a word takes the Claude program with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.testing.patience import wait_until
from tests.support.model_script import Refusal, Silence, calls, says
from tests.support.model_server import ModelServer

KERNEL = """
import asyncio, sys
from pathlib import Path
from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, child_processes

async def main():
    async def call(tool_call):
        print("calling", flush=True)
        return await ToolLog(wait=600)(tool_call)
    brain = ClaudeBrain({"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": sys.argv[1]}, Path(sys.argv[2]))
    async def tell():
        while not (found := child_processes()):
            await asyncio.sleep(0.01)
        print(*found, flush=True)
    task = asyncio.create_task(tell())
    async for event in brain.run(a_turn(call)):
        print("event", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("script", "until"),
    [
        pytest.param([Silence()], "", id="while it waits for the model"),
        pytest.param([says("word " * 2000, delay=0.05)], "event", id="while it speaks"),
        pytest.param([calls("echo", {"word": "one"})], "calling", id="while a tool runs"),
        pytest.param([Refusal(529)] * 99, "", id="while it waits to try again"),
    ],
)
def test_a_kernel_that_is_killed_takes_the_program_with_it(tmp_path, script, until):
    with ModelServer(script) as server:
        kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL, server.url, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        with kernel:
            assert kernel.stdout is not None
            pid = int(kernel.stdout.readline())
            wait_until(lambda: bool(server.turns))
            while until and kernel.stdout.readline().strip() != until:
                assert kernel.poll() is None
            assert is_running(pid)
            kernel.kill()
        wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
