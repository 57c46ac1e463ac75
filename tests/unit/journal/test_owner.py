import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.journal.owner import owner_alive, process_owner

TELL = "from kagura_kernel.journal.owner import process_owner; print(process_owner(), flush=True)"


def parts() -> tuple[str, str, str, str, str]:
    host, pid, since = process_owner().split(":")
    return (host, pid, *since.split("."))


def test_a_process_knows_itself_to_be_alive():
    assert process_owner() == process_owner()
    assert process_owner().split(":")[1] == str(os.getpid())
    assert owner_alive(process_owner())


def test_another_process_is_alive_until_it_ends():
    waiting = [sys.executable, "-c", TELL + "; input()"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        owner = process.stdout.readline().strip()
        assert owner != process_owner()
        assert owner_alive(owner)
        process.communicate("\n")
    assert not owner_alive(owner)


def test_a_process_that_ended_and_was_not_waited_for_is_gone():
    process = subprocess.Popen([sys.executable, "-c", TELL], stdout=subprocess.PIPE, text=True)
    try:
        owner = process.stdout.read().strip()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{process.pid}").exists() or sys.platform == "darwin"
        assert not owner_alive(owner)
    finally:
        process.communicate()


def test_a_forked_child_is_somebody_else():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, process_owner().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        assert said.read().decode() != process_owner()
    os.waitpid(child, 0)


def test_a_reused_pid_is_not_mistaken():
    host, pid, began, boot, namespace = parts()
    assert not owner_alive(f"{host}:{pid}:{int(began) - 1}.{boot}.{namespace}")


def test_a_restart_of_the_machine_ends_every_process(monkeypatch):
    host, pid, began, _, namespace = parts()
    monkeypatch.setattr("kagura_kernel.journal.owner._is_named_once", lambda found: found == namespace)
    assert not owner_alive(f"{host}:{pid}:{began}.00000000.{namespace}")


def test_in_a_container_another_boot_may_be_another_machine_of_the_same_name(monkeypatch):
    host, pid, began, _, _ = parts()
    monkeypatch.setattr("kagura_kernel.journal.owner._namespace", lambda: "4026532999")
    assert owner_alive(f"{host}:{pid}:{began}.00000000.4026532999")
    assert owner_alive(f"{host}:{pid}:{began}.00000000.4026531836")


def test_without_a_machine_id_another_boot_may_be_another_machine_of_the_same_name(monkeypatch):
    host, pid, began, _, namespace = parts()
    monkeypatch.setattr("kagura_kernel.journal.owner._machine", lambda: "")
    assert owner_alive(f"{host}:{pid}:{began}.00000000.{namespace}")


def test_a_boot_that_could_not_be_read_proves_nothing(monkeypatch):
    host, pid, began, boot, namespace = parts()
    nothing = hashlib.sha256(b"").hexdigest()[:8]
    assert owner_alive(f"{host}:{pid}:{began}.{nothing}.{namespace}")
    monkeypatch.setattr("kagura_kernel.journal.owner._boot", lambda: nothing)
    assert owner_alive(f"{host}:{pid}:{began}.{boot}.{namespace}")


@pytest.mark.skipif(sys.platform == "darwin", reason="another system tells by other means")
def test_whoever_has_no_descriptors_left_declares_nobody_gone():
    waiting = [sys.executable, "-c", TELL + "; input()"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        owner = process.stdout.readline().strip()
        assert owner_alive(owner)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            alive = owner_alive(owner)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert alive
        process.communicate("\n")


def test_a_process_that_the_system_hides_is_alive_while_it_is_there(monkeypatch):
    host, _, began, boot, namespace = parts()
    monkeypatch.setattr("kagura_kernel.journal.owner._start_time", lambda _: "")
    monkeypatch.setattr("kagura_kernel.journal.owner._has_ended", lambda _: False)
    assert owner_alive(f"{host}:{os.getppid()}:{began}.{boot}.{namespace}")
    assert not owner_alive(f"{host}:4194305:{began}.{boot}.{namespace}")


def test_where_the_system_shows_another_container_s_processes_nobody_is_gone(monkeypatch):
    host, _, began, boot, namespace = parts()
    monkeypatch.setattr("kagura_kernel.journal.owner._sees_processes", lambda: False)
    assert owner_alive(f"{host}:4194305:{began}.{boot}.{namespace}")
    assert process_owner().split(":")[2].startswith("0.")


@pytest.mark.parametrize("pid", ["999999999", "4194305"])
def test_a_pid_that_nobody_has_is_gone(pid):
    host, _, began, boot, namespace = parts()
    assert not owner_alive(f"{host}:{pid}:{began}.{boot}.{namespace}")


def test_what_cannot_be_seen_from_here_counts_as_alive():
    host, _, began, boot, namespace = parts()
    assert owner_alive(f"elsewhere:999999999:{began}.{boot}.{namespace}")
    assert owner_alive(f"{host}:999999999:{began}.{boot}.1")


@pytest.mark.parametrize("owner", ["", ":", "host", "host:1:2", "host:x:2.3.4", "a:b:c:d", "host:1:2.3.4:5"])
def test_an_owner_in_another_form_counts_as_alive(owner):
    assert owner_alive(owner)
