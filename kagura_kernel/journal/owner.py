"""Which process runs a run, and what becomes of the runs of a process that is gone.

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
from typing import TYPE_CHECKING

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import RunLost
from kagura_kernel.domain.events import ApprovalDecided, RunFinished

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal, Writing

_GONE = "Z", "X"
_OWNER = re.compile(r"(?P<host>[^:]+):(?P<pid>\d+):(?P<began>\w+)\.(?P<boot>\w+)\.(?P<namespace>\d+)")
_SYSTEM = SystemClock()


def process_owner() -> str:
    """This process, as later ones will recognise it."""
    pid = os.getpid()
    return f"{_host()}:{pid}:{_start_time(pid) or '0'}.{_boot()}.{_namespace()}"


def owner_alive(owner: str) -> bool:
    """Whether that process may still run: only what can be seen to be gone is gone.

    A process on another host, or in another container, cannot be seen from here and counts as alive, and so does an
    owner in a form that this version does not know.
    """
    form = _OWNER.fullmatch(owner)
    if form is None or form["host"] != _host():
        return True
    if form["boot"] != _boot():
        return False
    return form["namespace"] != _namespace() or _start_time(int(form["pid"])) == form["began"]


def mark_lost(journal: Journal, clock: Clock = _SYSTEM) -> list[str]:
    """Finish, as `lost`, every run whose process is gone, and call off what it was asking; the ids of those runs.

    Several processes may do it at once: each run is marked by one of them.

    Raises:
        JournalUnwritable: the runs so far are marked, the others are left for the next time.
    """
    from kagura_kernel.journal.views import unfinished

    lost = []
    for run in unfinished(journal):
        if owner_alive(run.owner):
            continue
        with journal.writing(flush=True) as writing:
            if _finish_lost(writing, run.run_id, clock):
                lost.append(run.run_id)
    return lost


def _finish_lost(writing: Writing, run_id: str, clock: Clock) -> bool:
    from sqlalchemy import select

    from kagura_kernel.journal.encoding import moment
    from kagura_kernel.journal.schema import approvals, runs

    row = writing.connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
    if row is None or row.status != "running":
        return False
    now = clock.now()
    ours = (approvals.c.run_id == run_id) & approvals.c.verdict.is_(None)
    for asked in writing.connection.execute(select(approvals).where(ours)).fetchall():
        writing.append(
            ApprovalDecided(
                run_id=run_id,
                session_id=row.session_id,
                at=now,
                approval_id=asked.id,
                verdict="aborted",
                by="kagura-kernel",
                via="lost",
                content_hash=asked.content_hash,
                waited=max(0.0, (now - moment(asked.requested_at)).total_seconds()),
            )
        )
    error = RunLost(run_id, f"its process ({row.owner}) is gone")
    writing.append(
        RunFinished(
            run_id=run_id,
            session_id=row.session_id,
            at=now,
            status="lost",
            error_code=error.code,
            error=error.message,
            brain=row.brain,
            model=row.model,
            turns=row.turns,
            tool_calls=row.tool_calls,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cache_read_tokens=row.cache_read_tokens,
            cache_write_tokens=row.cache_write_tokens,
            reported_usd=row.reported_usd,
            computed_usd=row.computed_usd,
            cost_source=row.cost_source,
            duration=max(0.0, (now - moment(row.started_at)).total_seconds()),
            brain_session=row.brain_session,
        )
    )
    return True


@cache
def _host() -> str:
    machine = _read("/etc/machine-id") or _read("/var/lib/dbus/machine-id")
    return f"{socket.gethostname().replace(':', '-')}-{_mark(machine)}"


@cache
def _boot() -> str:
    boot = _read("/proc/sys/kernel/random/boot_id")
    return _mark(boot or (_said("sysctl", "-n", "kern.boottime") if sys.platform == "darwin" else ""))


@cache
def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116 - a Path would follow nothing else
    except OSError:
        return "0"


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


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _said(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=5).stdout.strip()  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return ""
