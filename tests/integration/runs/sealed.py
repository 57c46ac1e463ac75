"""Runs whose brain thinks in the box: the real Claude program there, and a scripted model outside."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kagura_kernel.brain.sealed import SealedBrain
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events import AnyEvent, ModelCalled, ToolCalled, ToolFinished
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.policy import SandboxPolicy
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.membrane.egress.proxy import PROXY_PORT, proxy_variables
from kagura_kernel.membrane.grant import MembraneParts, compute_grant
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.run import Run
from kagura_kernel.runs.sealed_run import sealed_needs, with_program
from kagura_kernel.sandbox.backend import BoxSpec, SandboxBackend
from kagura_kernel.sandbox.selection import LaunchedBox
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.model_server import ModelServer

KEY = "sk-test-4f1d8c77b2e94c0a-never-real"


@dataclass
class Sealed:
    """What a sealed run left."""

    outcome: RunOutcome
    events: list[AnyEvent]
    approver: ScriptedApprover

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def said(self) -> list[tuple[str, str]]:
        """Each tool and what it answered."""
        return [(event.tool, event.text) for event in self.of(ToolFinished)]

    @property
    def used(self) -> list[str]:
        """Tools in the order in which they were called."""
        return [event.tool for event in self.of(ToolCalled)]

    @property
    def refused(self) -> list[ModelCalled]:
        """Requests that were not passed on."""
        return [event for event in self.of(ModelCalled) if event.why]


class SealedRuns:
    """Makes sealed runs in one project with one kind of box."""

    def __init__(self, backend: SandboxBackend, image: str | None, home: Path, project: Path) -> None:
        self.backend = backend
        self.project = project
        self._image = image
        self._home = home
        self.journal = Journal.open(home)
        self._number = 0

    def close(self) -> None:
        """The journal."""
        self.journal.close()

    def make(self, server: ModelServer, *, environ: dict[str, str] | None = None, **more: Any) -> Run:
        """A run that has not begun."""
        self._number += 1
        environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url} if environ is None else environ
        brain = more.pop("brain", None) or SealedBrain(environ, self._home / "programs")
        needs = sealed_needs(brain)
        grant = compute_grant(project=self.project, policy=SandboxPolicy(), net=more.pop("net", ()))
        open_hosts = bool(grant.egress.granted) or grant.egress.ask
        policy = SandboxPolicy(network_access=open_hosts)
        spec = BoxSpec(self.project, self._image, policy, env=proxy_variables(PROXY_PORT))
        if needs is not None:
            spec, grant = with_program(spec, grant, needs)

        async def resolve(host: str, port: int) -> Sequence[str]:
            del host, port
            return ["127.0.0.1"]

        async def start_box(_name: str, wanted: BoxSpec) -> LaunchedBox:
            return LaunchedBox(await self.backend.start(wanted), "the test says so")

        parts = RunParts(
            journal=self.journal,
            clock=SystemClock(),
            approver=more.pop("approver", None) or ScriptedApprover(),
            blobs=BlobStore(self._home / "blobs"),
            start_box=start_box,
            spill_root=self._home / "outputs",
            price=more.pop("price", lambda *_: (None, "")),
            membrane=MembraneParts(LeaseLedger(self.journal), Registry, resolver=lambda: resolve),
            redactor=BlindRedactor(),
            plugins=more.pop("plugins", None),
        )
        asked = {name: more.pop(name) for name in ("inputs", "outputs", "changes", "started_by") if name in more}
        order = RunOrder(
            f"run-{self._number}",
            f"ses-{self._number}",
            more.pop("task", "Do it."),
            self.project,
            spec,
            grant,
            brain=brain,
            brain_reason="asked for",
            request=RunRequest(headless=more.pop("headless", False), **asked),
            **more,
        )
        return Run(order, parts)

    async def run(self, server: ModelServer, *, approver: ScriptedApprover | None = None, **more: Any) -> Sealed:
        approver = approver or ScriptedApprover()
        run = self.make(server, approver=approver, **more)
        events = [event async for event in run.events()]
        assert run.outcome is not None
        return Sealed(run.outcome, events, approver)


@contextmanager
def a_web_server(text: str) -> Iterator[int]:
    """A server on the loopback that says one thing: its port."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            """Nothing is printed."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# ------------------------------------------------- looking at a box from outside


def processes_with(word: str) -> list[Path]:
    """Processes of the machine, boxes among them, with a word in their command line; this one left out."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if word.encode() in (process / "cmdline").read_bytes():
                found.append(process)
        except OSError:
            continue  # it is gone
    return found


def programs_at(name: str) -> list[Path]:
    """Claude programs of the machine that work where there is a file of this name; other tests' boxes have another."""
    found = []
    for program in processes_with("/kagura/claude/claude"):
        try:
            (program / "cwd" / name).stat()
        except OSError:
            continue  # another one's, or gone
        found.append(program)
    return found


def box_mates(process: Path) -> list[Path]:
    """Every process in the same box, whoever it belongs to."""
    return [other for other in Path("/proc").iterdir() if other.name.isdigit() and _space(other) == _space(process)]


def _space(process: Path) -> str:
    try:
        return str((process / "ns/pid").readlink())
    except OSError:
        return f"gone: {process}"


def holds(process: Path, wanted: Sequence[bytes]) -> dict[str, set[bytes]] | None:
    """Which of these texts stand where in a process: its variables, its command line, all memory that it can write.

    None when it has ended before all of it was read.
    """
    try:
        return {
            place: {text for text in wanted if text in data}
            for place, data in ((place, read()) for place, read in _places(process).items())
        }
    except (FileNotFoundError, ProcessLookupError):
        return None


def _places(process: Path) -> dict[str, Callable[[], bytes]]:
    return {
        "environ": (process / "environ").read_bytes,
        "cmdline": (process / "cmdline").read_bytes,
        "memory": lambda: _memory(process),
    }


def _memory(process: Path) -> bytes:
    found = bytearray()
    with (process / "maps").open() as maps, (process / "mem").open("rb", 0) as memory:
        for line in maps:
            borders, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            start, end = (int(border, 16) for border in borders.split("-"))
            found += _pages(process, memory, start, end)
    return bytes(found)


def _pages(process: Path, memory: Any, start: int, end: int) -> bytes:
    """What is there of a region: a program reserves far more than it has ever touched."""
    size = os.sysconf("SC_PAGE_SIZE")
    found = bytearray()
    with (process / "pagemap").open("rb", 0) as pagemap:
        at = start
        while at < end:
            count = min(end - at, 64 * 2**20) // size
            pagemap.seek(at // size * 8)
            entries = memoryview(pagemap.read(count * 8)).cast("Q")
            for number, entry in enumerate(entries):
                if entry >> 62:  # in memory, or swapped out
                    memory.seek(at + number * size)
                    try:
                        found += memory.read(size)
                    except OSError:
                        continue  # given up meanwhile
            at += count * size
    return bytes(found)
