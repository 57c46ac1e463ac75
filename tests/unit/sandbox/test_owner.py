"""Telling a process that is gone from one that lives."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from kagura_kernel.sandbox.owner import owner_alive, owner_of, this_owner


def test_this_process_lives():
    assert this_owner() == owner_of(os.getpid())
    assert owner_alive(this_owner())


def test_a_process_that_ended_is_gone_before_anyone_waits_for_it():
    with subprocess.Popen(["sleep", "100"]) as process:
        owner = owner_of(process.pid)
        assert owner_alive(owner)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not owner_alive(owner)
    assert not owner_alive(owner)


def test_a_later_process_of_the_same_number_is_another_owner():
    host, pid, start = this_owner().rsplit(":", 2)
    assert not owner_alive(f"{host}:{pid}:{int(start) + 1}")


def test_a_process_of_which_the_system_does_not_tell_counts_as_alive(monkeypatch):
    owner = this_owner()

    def no_descriptors(path: Path) -> str:
        raise OSError(errno.EMFILE, "too many open files", str(path))

    monkeypatch.setattr(Path, "read_text", no_descriptors)
    assert owner_alive(owner)


@pytest.mark.parametrize("owner", ["elsewhere:1:1", "", "nonsense", "a:b:c"])
def test_what_cannot_be_known_counts_as_alive(owner: str):
    assert owner_alive(owner)
