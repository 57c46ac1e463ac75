"""What runs in a Dask worker: a part of the work, in a cockpit of the worker's own.

The worker has its own settings, its own boxes and its own credentials. What it is sent says what to do and how much may
be had at most; it never holds a secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly.child_packets import (
    BEGUN_BEFORE,
    Contents,
    Packet,
    Report,
    contents_of,
    journal_name,
    keep,
    our_version,
    packed,
    packet_of,
)
from kagura_kernel.assembly.process import get_cockpit
from kagura_kernel.cockpit.handed import child_intent
from kagura_kernel.domain.errors import KaguraError, NotThisTime

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.outcome import RunOutcome

LOOK_SECONDS = 0.5
"""How often it is looked whether anybody still waits for a child."""

_END_SECONDS = 30.0
"""How long a child that is stopped may take to be gone."""


@dataclass
class _Worker:
    """What this process runs for others."""

    # The cockpit; programs and tests that put it together themselves set their own
    make: Callable[[], Cockpit] = get_cockpit
    lock: threading.Lock = field(default_factory=threading.Lock)
    going: dict[str, RunHandle] = field(default_factory=dict)  # Runs by id
    stopped: set[str] = field(default_factory=set)  # Runs that were called off, perhaps before they began


_worker = _Worker()


def use_cockpit(make: Callable[[], Cockpit]) -> None:
    """Let this process run what it is sent in another cockpit than the one of its own settings."""
    _worker.make = make


def run_child(text: str, contents: Mapping[str, bytes]) -> tuple[str, Contents]:
    """Do what a packet says and wait for the end; blocks. Never raises: what goes wrong is in the report.

    Args:
        text: The packet.
        contents: What the changed files of its workspace hold.
    """
    try:
        packet = packet_of(text)
        return _done(packet, contents)
    except KaguraError as error:
        return packed(Report(code=error.code, message=error.message)), {}
    # Whatever else it is, it is told where somebody waits for it, by its name alone: its text might hold anything.
    except Exception as error:  # noqa: BLE001 - as above
        return packed(Report(code="ERR_WORKERS", message=f"the worker failed: {type(error).__name__}")), {}


async def stop_child(run_id: str) -> None:
    """Stop a run of this process, now or before it begins, and return when it is gone."""
    await asyncio.to_thread(_stop, run_id)


def _done(packet: Packet, contents: Mapping[str, bytes]) -> tuple[str, Contents]:
    run_id = packet.order.handoff.run_id
    cockpit = _worker.make()
    _check(packet, cockpit)
    if cockpit.journal.events(run_id=run_id, limit=1):
        return packed(Report(code=BEGUN_BEFORE, message="another worker had begun with it")), {}
    asyncio.run(keep(contents, cockpit.blobs))
    handle = _begun(packet, cockpit)
    try:
        outcome = _waited_for(handle)
    finally:
        with _worker.lock:
            _worker.going.pop(run_id, None)
    return packed(Report(outcome)), contents_of(outcome.changes, cockpit.blobs)


def _waited_for(handle: RunHandle) -> RunOutcome:
    """How it ended. It is ended as soon as nobody waits for it any more."""
    task = _task()
    while True:
        try:
            return handle.result(LOOK_SECONDS)
        except TimeoutError:
            if task is not None and not handle.stopping and task.is_over():
                handle.kill("the end of whoever waited for it")


@dataclass(frozen=True, slots=True)
class _Task:
    """What Dask knows of what this thread does."""

    worker: Any
    key: str

    def is_over(self) -> bool:
        """Whether whoever waited has gone or called it off, or the worker has lost its scheduler."""
        known = self.worker.state.tasks.get(self.key)
        return known is None or known.state == "cancelled" or self.worker.status.name != "running"


def _task() -> _Task | None:
    from distributed import get_worker

    try:
        worker: Any = get_worker()
        return _Task(worker, worker.get_current_task())
    except ValueError:
        # Called by itself, and not by a worker.
        return None


def _begun(packet: Packet, cockpit: Cockpit) -> RunHandle:
    run_id = packet.order.handoff.run_id
    with _worker.lock:
        if run_id in _worker.stopped:
            raise NotThisTime("The run was called off before it began.")
        # Under the lock, so that whoever stops it finds it.
        handle = _worker.going[run_id] = cockpit.launch(child_intent(packet.order))
    return handle


def _check(packet: Packet, cockpit: Cockpit) -> None:
    """Refuse to work where the one who waits would not hear of it, or the task's memory is not there."""
    if packet.version != our_version():
        raise NotThisTime(
            f"The worker has version {our_version()} of kagura-kernel, and the task comes from {packet.version}: "
            "install the same one on both sides."
        )
    if packet.journal and journal_name(cockpit.journal) != packet.journal:
        raise NotThisTime(
            "The worker keeps another journal: give both sides the same PostgreSQL URL in the setting `journal_url`."
        )
    memory_id = packet.order.handoff.memory_id
    if memory_id and not cockpit.remembers(memory_id):
        raise NotThisTime(
            "The worker has another memory: give both sides the same PostgreSQL URL in the setting `memory`."
        )


def _stop(run_id: str) -> None:
    with _worker.lock:
        _worker.stopped.add(run_id)
        handle = _worker.going.get(run_id)
    if handle is not None:
        handle.kill("the end of the run that it works for")
        # How it ended is in its report; here it only has to be over.
        with contextlib.suppress(Exception):
            handle.result(_END_SECONDS)
