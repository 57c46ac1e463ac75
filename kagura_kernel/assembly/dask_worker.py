"""What runs in a Dask worker: a part of the work, in a cockpit of the worker's own.

The worker has its own settings, its own boxes and its own credentials. What it is sent says what to do and how much may
be had at most; it never holds a secret. What travels is JSON and bytes, checked where it arrives; no object of ours is
unpickled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from kagura_kernel.assembly.process import get_cockpit
from kagura_kernel.cockpit.agents import child_intent
from kagura_kernel.domain.errors import KaguraError, NotThisTime
from kagura_kernel.domain.late_dataclass import asdict, dataclass, field
from kagura_kernel.domain.outcome import FileChange, RunOutcome
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.runs.order import ChildOrder

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle


T = TypeVar("T")

MOST_BYTES = 256 * 2**20
"""Bytes of changed files that travel with one task, or with its result."""

Contents = dict[str, bytes]
"""Contents of changed files by their SHA-256."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A part of the work on its way to a worker."""

    order: ChildOrder  # What to do
    journal: str = ""  # Which journal it belongs to; empty where that one has no row yet
    version: str = ""  # Of the package that hands it on


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says of it."""

    outcome: RunOutcome | None = None  # How it ended; None when it did not begin
    code: str = ""  # Why it did not begin; empty when it did
    message: str = ""  # The same, for reading


RESOURCE = "kagura-box"
"""What a worker is started with, as `--resources kagura-box=2`, to say how many children it has boxes for."""

BEGUN_BEFORE = "BEGUN_BEFORE"
"""The code of a packet that another worker had begun with: that one is gone."""


@cache
def our_version() -> str:
    """Of the package that is installed here."""
    return version("kagura-kernel")


_PACKET = TypeAdapter(Packet)
_REPORT = TypeAdapter(Report)


def packed(value: Packet | Report) -> str:
    """As text; names of files keep what is no character."""
    return json.dumps(asdict(value), default=str)


def packet_of(text: str) -> Packet:
    """The packet in a text.

    Raises:
        ValueError: it is none.
    """
    return _checked(_PACKET, text)


def report_of(text: str) -> Report:
    """The report in a text; raises like `packet_of`."""
    return _checked(_REPORT, text)


def _checked(form: TypeAdapter[T], text: str) -> T:
    try:
        return form.validate_python(json.loads(text))
    except ValidationError as error:
        raise ValueError(f"{error.error_count()} of its fields are wrong") from error


def journal_name(journal: Journal) -> str:
    """What tells one journal from all others, wherever it is opened from: the hash of its first row; empty without one.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    rows = journal.events(limit=1)
    return rows[0].hash if rows else ""


def contents_of(changes: Iterable[FileChange], blobs: BlobStore) -> Contents:
    """What changed files hold, as far as it is still kept; blocks.

    Raises:
        ValueError: it is more than may travel.
    """
    found: Contents = {}
    size = 0
    for change in changes:
        if change.kind == "link" or not change.new_sha256 or change.new_sha256 in found:
            continue
        try:
            content = blobs.get(change.new_sha256)
        except OSError:
            continue
        size += len(content)
        if size > MOST_BYTES:
            raise ValueError(f"its changed files have more than {MOST_BYTES // 2**20} MiB, which do not travel")
        found[change.new_sha256] = content
    return found


async def keep(contents: Mapping[str, bytes], blobs: BlobStore) -> None:
    """Keep what has arrived, under the hash of what it is.

    Raises:
        JournalUnwritable: there is no room.
    """
    for content in contents.values():
        await blobs.keep(content)


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
    """Do what a packet says and wait for the end; blocks. Never raises: what goes wrong is in the report."""
    try:
        packet = packet_of(text)
        return _done(packet, contents)
    except KaguraError as error:
        return packed(Report(code=error.code, message=error.message)), {}
    # Whatever else it is, it is told where somebody waits for it, by its name alone: its text might hold anything.
    except Exception as error:  # noqa: BLE001 - as above
        return packed(Report(code="ERR_WORKERS", message=f"the worker failed: {type(error).__name__}")), {}


def says_boxes(dask_worker: Any) -> bool:
    """Whether this worker, which Dask hands in by that name, was started with a number of boxes."""
    return bool(dask_worker.state.total_resources.get(RESOURCE))


async def why_no_box(box: str) -> str:
    """Why this process has no box of this kind, found out by starting one; empty where it has."""
    try:
        return await asyncio.to_thread(lambda: _worker.make().why_no_box(box))
    except KaguraError as error:
        return f"{error.message} [{error.code}]"


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
