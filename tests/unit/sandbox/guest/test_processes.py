import os
import signal
import subprocess

import pytest

from kagura_kernel.sandbox.guest import processes
from kagura_kernel.testing.patience import wait_until

ODD_NAME = "odd ) name (S 1"


@pytest.fixture
def marked():
    """A marked shell with a child, and a marked one in another session that is nobody's."""
    line = "(setsid sleep 60 </dev/null >/dev/null 2>&1 &); sleep 60 & echo ready; wait"
    shell = subprocess.Popen(
        ["bash", "-c", line],
        env={"MARK": "of-it", "PATH": os.environ["PATH"]},
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    assert shell.stdout is not None
    shell.stdout.readline()
    yield shell
    processes.kill_all(lambda: processes.family(shell.pid, b"MARK=of-it\0"))
    shell.wait()
    shell.stdout.close()


def test_a_family_is_the_session_and_whoever_carries_the_mark(marked):
    wait_until(lambda: len(processes.family(marked.pid, b"MARK=of-it\0")) == 3)
    # It leaves the session a moment after it has begun.
    wait_until(lambda: len(processes.family(marked.pid, b"MARK=another\0")) == 2)
    assert os.getpid() not in processes.family(os.getpid(), b"MARK=of-it\0")


def test_killing_a_family_leaves_nobody(marked):
    wait_until(lambda: len(processes.family(marked.pid, b"MARK=of-it\0")) == 3)
    processes.kill_all(lambda: processes.family(marked.pid, b"MARK=of-it\0"))
    assert marked.wait(60) == -signal.SIGKILL
    wait_until(lambda: not processes.family(marked.pid, b"MARK=of-it\0"))


def test_a_process_may_have_any_name(tmp_path):
    program = tmp_path / ODD_NAME
    program.write_bytes(b"#!/bin/sh\nread line\n")
    program.chmod(0o755)
    child = subprocess.Popen([program], stdin=subprocess.PIPE)
    try:
        found = [process for process in processes.listing() if process.pid == child.pid]
        assert [process.parent for process in found] == [os.getpid()]
    finally:
        child.kill()
        child.communicate()


def test_signalling_who_is_gone_is_no_error():
    gone = subprocess.Popen(["true"])
    gone.wait()
    processes.signal_all({gone.pid}, signal.SIGTERM)
