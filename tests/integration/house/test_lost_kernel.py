"""A kernel that is killed leaves nothing behind, and the next one says what happened."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import kernel_environ

pytestmark = [pytest.mark.timeout(180)]

PROGRAM = """
import sys
from pathlib import Path
from kagura_kernel.assembly import get_cockpit
from kagura_kernel.runs.request import RunRequest
marker = sys.argv[2]
code = f"(setsid sleep {marker} &) ; sleep {marker}"
handle = get_cockpit().launch(
    RunRequest(task=code, language="bash", box=sys.argv[1], project=Path.cwd(), command_timeout=0, idle_timeout=0)
)
handle.subscribe(lambda event: print(event.kind, flush=True))
handle.result()
"""

KEPT = """
import sys
from pathlib import Path
from kagura_kernel.assembly import get_cockpit
from kagura_kernel.runs.request import RunRequest
code = f"import subprocess\\nother = [subprocess.Popen(['sleep', '{sys.argv[2]}']) for _ in range(2)]"
get_cockpit().launch(RunRequest(code, "python", box=sys.argv[1], project=Path.cwd(), keep=True)).result()
print("tool.called", flush=True)
sys.stdin.read()
"""
"""Leaves a box in place, with a program that goes on in it."""


def processes_with(word: str) -> list[str]:
    """Command lines of all processes that name a word, as the host sees them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if word in line:
                found.append(line)
    return found


@pytest.fixture
def killed(project: Path, tmp_path: Path) -> Iterator[object]:
    started: list[subprocess.Popen[str]] = []

    def run_and_kill(box: str, marker: str, program: str = PROGRAM, **environ: str) -> dict[str, str]:
        environment = kernel_environ(tmp_path / "home", **environ)
        process = subprocess.Popen(
            [sys.executable, "-c", program, box, marker],
            cwd=project,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "tool.called":
                break
        wait_until(lambda: len(processes_with(f"sleep {marker}")) >= 2)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        process.stdout.close()
        assert process.stdin is not None
        process.stdin.close()
        return environment | {"KILLED_PID": str(process.pid)}

    yield run_and_kill
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait(60)


def check_the_next_start(environment: dict[str, str]) -> None:
    cockpit = make_cockpit(environment)
    try:
        row = cockpit.runs()[0]
        assert (row.status, row.error_code) == ("lost", "ERR_RUN_LOST")
        assert cockpit.status().lost == (row.run_id,)
    finally:
        cockpit.close()
    again = make_cockpit(environment)
    try:
        assert again.status().lost == ()
    finally:
        again.close()


def test_a_killed_kernel_leaves_no_bubblewrap_box_and_the_next_start_marks_the_run_lost(killed):
    environment = killed("bubblewrap", "86543.21")
    wait_until(lambda: not processes_with("sleep 86543.21"))
    check_the_next_start(environment)


def test_a_killed_kernel_leaves_no_box_that_waited_for_a_next_cell(killed):
    killed("bubblewrap", "86543.23", KEPT)
    wait_until(lambda: not processes_with("sleep 86543.23"))


@pytest.mark.docker
@pytest.mark.timeout(600)  # whoever comes first builds the images
def test_a_killed_kernel_leaves_no_container_and_the_next_start_marks_the_run_lost(killed, docker_daemon):
    waited = killed("docker", "86543.24", KEPT, DOCKER_HOST=docker_daemon.host)
    environment = killed("docker", "86543.22", DOCKER_HOST=docker_daemon.host)
    wait_until(lambda: not processes_with("sleep 86543.2"))
    owners = '{{.Label "kagura.owner"}}'
    listing = ["docker", "-H", docker_daemon.host, "ps", "-a", "--filter", "label=kagura.box", "--format", owners]
    mine = {f":{one['KILLED_PID']}:" for one in (waited, environment)}
    owned = partial(subprocess.run, listing, capture_output=True, text=True, check=True)
    wait_until(lambda: not any(pid in owned().stdout for pid in mine))
    check_the_next_start(environment)
