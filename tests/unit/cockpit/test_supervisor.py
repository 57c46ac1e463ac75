"""What started us is told how we are, in systemd's own words."""

from __future__ import annotations

import os
import socket
import uuid

import pytest

from kagura_kernel.cockpit.serving import Supervisor


@pytest.mark.parametrize("is_abstract", [False, True])
def test_words_arrive_a_line_each(tmp_path, is_abstract):
    place = f"@{uuid.uuid4().hex}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(place.replace("@", "\0", 1) if is_abstract else place)
        Supervisor({"NOTIFY_SOCKET": place}).tell("READY=1", "STATUS=one\nMAINPID=1")
        assert heard.recv(4096) == b"READY=1\nSTATUS=one MAINPID=1"


def test_where_nobody_listens_nothing_happens(tmp_path):
    Supervisor({}).tell("READY=1")
    Supervisor({"NOTIFY_SOCKET": str(tmp_path / "gone")}).tell("READY=1")


def test_one_that_reads_nothing_keeps_nobody_waiting(tmp_path):
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(place)
        heard.settimeout(0)
        supervisor = Supervisor({"NOTIFY_SOCKET": place})
        for _ in range(2_000):
            supervisor.tell("WATCHDOG=1" + " " * 1_000)
        assert heard.recv(4096).startswith(b"WATCHDOG=1")


def test_what_is_started_later_cannot_speak_for_us():
    environ = {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid()), "A": "b"}
    assert Supervisor(environ).patience == 3
    assert environ == {"A": "b"}


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"},
    ],
)
def test_without_a_watchdog_of_ours_there_is_no_patience(asked):
    assert Supervisor({"NOTIFY_SOCKET": "/run/notify", **asked}).patience is None
