"""The processes in the box: found in /proc, stopped as a family, and the guest's own hiding."""

# ruff: noqa: PTH208 - pathlib takes milliseconds to import, and paths in a box are bytes
from __future__ import annotations

import os

from .signals import SIGKILL, SIGSTOP

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PASSES = 40
FIELDS = 4
MOST_ENVIRON = 64  # pieces of 64 KiB


class Process:
    """One living process: what /proc/PID/stat says of its relations."""

    def __init__(self, pid: int, parent: int, group: int, session: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session


def harden() -> bool:
    """Hide the guest from its commands, and make it the parent of all orphans; whether both worked.

    An undumpable process cannot be traced, and its descriptors and memory cannot be opened, by others of its user.
    """
    try:
        import _ctypes

        engine: Any = _ctypes
        prctl = engine.dlsym(engine.dlopen(None, 0), "prctl")
        hidden = engine.call_function(prctl, (PR_SET_DUMPABLE, 0, 0, 0, 0))
        reaper = engine.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        return False
    return bool(hidden == 0 and reaper == 0)


def listing() -> list[Process]:
    """All living processes; zombies are left out."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = _look(name)
            if process is not None:
                found.append(process)
    return found


def family(leader: int, marker: bytes) -> set[int]:
    """A command's processes: its session and group, their descendants, and whoever still carries its marker."""
    everyone = listing()
    me = os.getpid()
    found = {p.pid for p in everyone if leader in (p.session, p.group, p.pid)}
    found |= {p.pid for p in everyone if p.pid not in found and p.pid != me and _carries(p.pid, marker)}
    return _with_descendants(found, everyone) - {me}


def descendants() -> set[int]:
    """Every process below the guest; as it adopts orphans, these are all that commands ever started."""
    me = os.getpid()
    return _with_descendants({me}, listing()) - {me}


def signal_all(pids: set[int], signal: int) -> None:
    """Send `signal` to each that still exists."""
    for pid in pids:
        try:
            os.kill(pid, signal)
        except OSError:
            continue


def kill_all(find: Callable[[], set[int]]) -> None:
    """Freeze what `find` finds until there is nothing new, so that nobody can fork away, then kill it all."""
    seen: set[int] = set()
    for _ in range(PASSES):
        new = find() - seen
        if not new:
            break
        signal_all(new, SIGSTOP)
        seen |= new
    signal_all(seen, SIGKILL)


def _look(name: str) -> Process | None:
    try:
        fd = os.open("/proc/" + name + "/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        text = os.read(fd, 1024)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name in parentheses may hold spaces and parentheses of its own.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < FIELDS or fields[0] in (b"Z", b"X"):
        return None
    return Process(int(name), int(fields[1]), int(fields[2]), int(fields[3]))


def _carries(pid: int, marker: bytes) -> bool:
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return False
    try:
        parts: list[bytes] = []
        while len(parts) < MOST_ENVIRON:
            part = os.read(fd, 65536)
            if not part:
                break
            parts.append(part)
        return marker in b"".join(parts)
    except OSError:
        return False
    finally:
        os.close(fd)


def _with_descendants(roots: set[int], everyone: list[Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in everyone:
        children.setdefault(process.parent, []).append(process.pid)
    found = set(roots)
    todo = list(roots)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found
