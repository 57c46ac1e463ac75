"""Who a box belongs to: a process, named so that another one can tell later whether it still lives."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path


def this_owner() -> str:
    """This process as `host:pid:starttime`; the start time tells it from a later process of the same number."""
    return owner_of(os.getpid())


def owner_of(pid: int) -> str:
    """The process `pid` of this machine as `host:pid:starttime`."""
    return f"{_host()}:{pid}:{_start_time(pid)}"


def owner_alive(owner: str) -> bool:
    """Whether that process still runs; one of another machine, or a text that is none, counts as alive.

    Only what is known to be dead may be swept.
    """
    host, _, rest = owner.rpartition(":")
    host, _, number = host.rpartition(":")
    if host != _host() or not number.isdigit():
        return True
    try:
        return _exists(int(number)) and rest == _start_time(int(number))
    except OSError:
        # The system does not tell, as when this process has no descriptor left: that is no proof of anything.
        return True


@cache
def _host() -> str:
    return socket.gethostname()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_time(pid: int) -> str:
    """Clock ticks since boot at which it started; `0` where there is no such file, for it is gone or is never told.

    Raises:
        OSError: it cannot be read now.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "0"
    # The name in parentheses may hold anything, blanks and parentheses too.
    fields = stat.rpartition(")")[2].split()
    return "0" if fields[0] in "ZX" else fields[19]
