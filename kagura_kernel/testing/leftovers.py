"""Processes that tests started and did not end, found in /proc. Where there is no /proc, nothing is found."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kagura_kernel.testing.false_home import TOKEN

# Python's own helpers live as long as the process that started them.
_HELPERS = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")
_BOX_PROGRAMS = (b"bwrap", b"runsc-sandbox", b"runsc-gofer", b"/runsc\0", b"kagura_kernel.sandbox.")


@dataclass(frozen=True, slots=True)
class Process:
    """One process as /proc shows it.

    Attributes:
        pid: Its number.
        parent: Its parent's number.
        started: When, seconds since 1970.
        command: Its arguments, NUL between them; empty for a thread of the system or a zombie.
        environment: Its variables at its start, NUL between them; empty when they may not be read.
    """

    pid: int
    parent: int
    started: float
    command: bytes
    environment: bytes

    @property
    def description(self) -> str:
        """For a person: number and command line."""
        line = self.command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
        return f"{self.pid}: {line[:300]}"


def select(processes: Sequence[Process], *, token: str, since: float, me: int) -> list[Process]:
    """Those that belong to the test session of this token and are neither `me`, nor above `me`, nor Python's helpers.

    A process belongs to it when it descends from `me`, when it carries the token, or when it is an orphan that looks
    like a box and was born during the session (a box has an environment of its own).
    """
    by_pid = {process.pid: process for process in processes}
    above = {me, *_ancestors(by_pid, me)}

    def ours(process: Process) -> bool:
        if process.pid in above or not process.command or any(word in process.command for word in _HELPERS):
            return False
        if me in _ancestors(by_pid, process.pid) or f"{TOKEN}={token}".encode() in process.environment.split(b"\0"):
            return True
        orphan = process.parent <= 1 or process.parent not in by_pid
        return orphan and process.started >= since and any(word in process.command for word in _BOX_PROGRAMS)

    return [process for process in processes if ours(process)]


def descendants(pid: int) -> list[Process]:
    """Processes that this one started, and those that they started."""
    by_pid = {process.pid: process for process in _processes()}
    return [process for process in by_pid.values() if pid in _ancestors(by_pid, process.pid)]


def wait_until_gone(token: str, *, since: float, patience: float) -> list[Process]:
    """What is still there after `patience` seconds; returns as soon as nothing is."""
    give_up = time.monotonic() + patience
    while True:
        left = select(list(_processes()), token=token, since=since, me=os.getpid())
        if not left or time.monotonic() > give_up:
            return left
        time.sleep(0.1)


def end(processes: Iterable[Process]) -> None:
    """Kill them, so that they do not disturb whoever comes next."""
    for process in processes:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _ancestors(by_pid: dict[int, Process], pid: int) -> list[int]:
    found: list[int] = []
    while (process := by_pid.get(pid)) and process.parent not in found and process.parent > 0:
        found.append(process.parent)
        pid = process.parent
    return found


def _processes() -> Iterable[Process]:
    proc = Path("/proc")
    try:
        booted = _boot_time(proc)
        entries = [entry for entry in proc.iterdir() if entry.name.isdigit()]
    except OSError:
        return
    for entry in entries:
        try:
            # The name in brackets may hold blanks and brackets itself.
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().rstrip(b"\0")
        except OSError:
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            environment = b""
        started = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        yield Process(int(entry.name), int(fields[1]), started, command, environment)


def _boot_time(proc: Path) -> float:
    for line in (proc / "stat").read_text("ascii", "replace").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0
