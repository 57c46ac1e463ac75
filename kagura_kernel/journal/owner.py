"""Which process runs a run, and whether it still does.

An owner is `host:pid:starttime`. `host` is the host's name with a mark of its machine id; `starttime` is when the
process began, with a mark of the machine's boot and of the pid namespace, so that neither a reused pid nor a second
container on the same machine is mistaken for it.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

_GONE = "Z", "X"
_OWNER = re.compile(r"(?P<host>[^:]+):(?P<pid>\d+):(?P<began>\w+)\.(?P<boot>\w+)\.(?P<namespace>\d+)")
_UUID = re.compile(r'"IOPlatformUUID" = "([^"]+)"')
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_OUTERMOST = "4026531836"
"""The pid namespace of a Linux machine itself, as every kernel numbers it."""
_NO_TIME = "0"


def process_owner() -> str:
    """This process, as later ones will recognise it."""
    pid = os.getpid()
    began = _start_time(pid) if _sees_processes() else ""
    return f"{_host()}:{pid}:{began or _NO_TIME}.{_boot()}.{_namespace()}"


def owner_alive(owner: str) -> bool:
    """Whether that process may still run: only what can be seen to be gone is gone.

    A process on another host, or in another container, cannot be seen from here and counts as alive, and so does an
    owner in a form that this version does not know, and one of which the system tells nothing just now.
    """
    form = _OWNER.fullmatch(owner)
    if form is None or form["host"] != _host() or _UNKNOWN in (form["boot"], _boot()):
        return True
    if form["boot"] != _boot():
        # An image brings its machine id along, and two machines may call a container the same: only outside of
        # containers it is this machine that was started anew.
        return not _is_named_once(form["namespace"])
    if form["namespace"] != _namespace() or not _sees_processes():
        return True
    return _runs(int(form["pid"]), form["began"])


def told_process(owner: str) -> str:
    """How a person is told of it, `process 7 on host`; empty where that is not known."""
    host, _, rest = owner.partition(":")
    process = rest.partition(":")[0]
    return f"process {process} on {host}" if process else ""


@cache
def _host() -> str:
    return f"{socket.gethostname().replace(':', '-')}-{_mark(_machine())}"


@cache
def _machine() -> str:
    """What tells this machine from others of its name; empty where nothing does."""
    if sys.platform == "darwin":
        found = _UUID.search(_said("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"))
        return found[1] if found else ""
    return _read("/etc/machine-id") or _read("/var/lib/dbus/machine-id")


@cache
def _boot() -> str:
    # On macOS `kern.boottime` moves whenever the clock is set.
    boot = _said("sysctl", "-n", "kern.bootsessionuuid") if sys.platform == "darwin" else _read(_BOOT_ID)
    return _mark(boot)


def _is_named_once(namespace: str) -> bool:
    """Whether an owner of our host's name, in this pid namespace, can be of no machine but this one."""
    outermost = "0" if sys.platform == "darwin" else _OUTERMOST
    return bool(_machine()) and namespace == _namespace() == outermost


@cache
def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116 - a Path would follow nothing else
    except OSError:
        return "0"


def _sees_processes() -> bool:
    """Whether what the system shows are the processes of our own pid namespace."""
    if sys.platform == "darwin":
        return True
    try:
        return os.readlink("/proc/self") == str(os.getpid())  # noqa: PTH115 - a Path would follow nothing else
    except OSError:
        return False


def _runs(pid: int, began: str) -> bool:
    """Whether this very process runs; so it does where nobody can tell."""
    found = _start_time(pid)
    if found:
        return began in (found, _NO_TIME)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        # Processes of other people may be hidden, and still they are there.
        return True
    # Either it has ended and nobody took note, or it cannot be read: for want of descriptors, for example.
    return not _has_ended(pid)


def _has_ended(pid: int) -> bool:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(fields) and fields[0] in _GONE


def _start_time(pid: int) -> str:
    """When a process began, in the system's own count; empty when there is no such process."""
    if sys.platform == "darwin":
        return _mark(said) if (said := _said("ps", "-o", "lstart=", "-p", str(pid))) else ""
    found = _read(f"/proc/{pid}/stat")
    # The name stands in brackets and may hold anything; behind the last one the fields are plain.
    fields = found.rpartition(")")[2].split()
    return "" if not fields or fields[0] in _GONE else fields[19]


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


_UNKNOWN = _mark("")


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _said(*argv: str) -> str:
    try:
        # In the same words whatever the time zone and the language of whoever asks.
        environ = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=5, env=environ)  # noqa: S603 - fixed words
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
