from __future__ import annotations

import subprocess
import time

import pytest

from kagura_kernel.testing.false_home import TOKEN
from kagura_kernel.testing.guards import Process, select, wait_until_gone

ME = 100


def process(
    pid: int,
    parent: int,
    command: str = "sleep 9",
    *,
    started: float = 50.0,
    environment: str = "",
    zombie: bool = False,
) -> Process:
    return Process(pid, parent, started, command.replace(" ", "\0").encode(), environment.encode(), zombie=zombie)


def found(*others: Process) -> list[int]:
    tree = [process(1, 0, "init"), process(50, 1, "bash"), process(ME, 50, "pytest"), *others]
    return [one.pid for one in select(tree, token="/tmp/kagura-x", since=40.0, me=ME)]


def test_children_and_their_children_are_found():
    assert found(process(101, ME), process(102, 101)) == [101, 102]


def test_whoever_carries_the_token_is_found_wherever_it_hangs():
    assert found(process(101, 1, environment=f"A=1\0{TOKEN}=/tmp/kagura-x\0B=2")) == [101]


def test_another_session_is_left_alone():
    assert found(process(101, 1, environment=f"{TOKEN}=/tmp/kagura-xy"), process(102, 50)) == []


@pytest.mark.parametrize(
    "command",
    ["bwrap --unshare-all", "/usr/bin/runsc --network=none run", "runsc-gofer --root=/x", "runsc-sandbox --root=/x"],
)
def test_an_orphaned_box_born_meanwhile_is_found_although_its_environment_is_its_own(command):
    assert found(process(101, 1, command)) == [101]


def test_boxes_that_are_older_or_have_a_living_parent_belong_to_somebody_else():
    assert found(process(101, 1, "bwrap --unshare-all", started=30.0), process(102, 50, "bwrap --unshare-all")) == []


def test_helpers_of_python_and_ended_processes_do_not_count():
    tracker = "python -c from_multiprocessing.resource_tracker"
    assert found(process(101, ME, tracker), process(102, ME, "", zombie=True)) == []


def test_a_child_whose_program_is_only_being_started_has_no_command_yet_and_counts():
    assert found(process(101, ME, "")) == [101]


def test_the_real_table_shows_a_child_until_it_is_gone():
    began = time.time()
    with subprocess.Popen(["sleep", "60"]) as child:
        left = wait_until_gone("/no/such/token", since=began, patience=0)
        child.kill()
    (found_child,) = (one for one in left if one.pid == child.pid)
    assert found_child.description == f"{child.pid}: sleep 60"
    assert abs(found_child.started - began) < 60
    assert child.pid not in [one.pid for one in wait_until_gone("/no/such/token", since=began, patience=0)]
