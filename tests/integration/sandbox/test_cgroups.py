"""Control groups of this machine's own kernel, as far as it has them; no group but the test's own is touched.

Limits are tried out by the boxes of the conformance suite, in the version that this machine uses. What the second
version does without any controller (`cgroup.kill`) is tried out here wherever its tree is mounted.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.sandbox.supervisor.cgroups import Tree, group_name, make_group, process_namespace, sweep

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
