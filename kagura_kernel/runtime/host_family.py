"""All processes of one host command, stopped together, and the keeper that does so when this process is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from kagura_kernel.sandbox.guest.processes import family, kill_all

MARKER = "KAGURA_HOST_COMMAND"
"""Variable by which a command's processes are known even when they left its process group."""

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from kagura_kernel.runtime.host_keeper import main; main()"


def stop_family(leader: int, marker: str) -> None:
    """Kill the command's group, session and descendants; `leader` must not have been reaped yet."""
    if Path("/proc/self/stat").exists():
        kill_all(lambda: family(leader, f"{MARKER}={marker}".encode()))
    signal_group(leader, signal.SIGKILL)


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signal the command's process group, if there still is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


class Keeper:
    """The process that stops the command when this one is killed."""

    def __init__(self, leader: int, marker: str) -> None:
        words = [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, str(leader), f"{MARKER}={marker}"]
        # It must outlive an interrupt of the terminal, and see nothing of the environment.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter with our own program
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """The command is gone: end the keeper without any harm; may be called twice."""
        if self._process.returncode is not None:
            return
        # Killed rather than told, so that nobody waits for its start; it has nothing to clean up.
        self._process.kill()
        self._process.wait()
        pipe: IO[bytes] | None = self._process.stdin
        if pipe is not None:
            pipe.close()
