"""Boxes behind a membrane as a run has it, and a program that connects from inside them and from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.identity import new_run_id, new_session_id
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.lease import Holder, parse_grant
from kagura_kernel.membrane.credentials.registry import Registry, parse_registry
from kagura_kernel.membrane.credentials.secret import SecretReader
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.egress.proxy import PROXY_PORT
from kagura_kernel.membrane.grant import MembraneParts, RunGrant, SessionPowers
from kagura_kernel.membrane.membrane import Membrane
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.approver import ScriptedApprover
from tests.bench.contenders import PROGRAMS, mitmproxy, serving, squid
from tests.bench.harness import Bench, Missing
from tests.bench.places import project, spec

CLIENT = PROGRAMS / "client.py"
NO_LIMITS = CommandLimits(total=None, idle=None)

Ask = Callable[[str, int], Awaitable[Any]]
"""Runs the client: what it shall do, and how many or how much; its answer."""


class Membranes:
    """Makes membranes of runs of their own, all in one journal on disk.

    Args:
        folder: For the journal.
        providers: The person's credential providers, as TOML.
        secrets: Variables that these name.
    """

    def __init__(self, folder: Path, providers: str = "", secrets: dict[str, str] | None = None) -> None:
        self.failures: list[BaseException] = []
        self._clock = SystemClock()
        self._journal = Journal.open(folder, clock=self._clock)
        self._registry = parse_registry(providers, SecretReader(secrets or {}))

    @property
    def ledger(self) -> LeaseLedger:
        """Where credentials are written down."""
        return LeaseLedger(self._journal)

    @property
    def registry(self) -> Registry:
        """The providers."""
        return self._registry

    def close(self) -> None:
        """Close the journal, and tell what went wrong in the background."""
        self._journal.close()
        if self.failures:
            raise self.failures[0]

    def make(self, net: Sequence[str] = (), credentials: Sequence[str] = ()) -> Membrane:
        holder = Holder(new_run_id(), new_session_id(), process_owner())
        grant = RunGrant(net=tuple(net), egress=parse_grants(net), credentials=tuple(map(parse_grant, credentials)))
        return Membrane(
            grant,
            MembraneParts(self.ledger, lambda: self._registry),
            holder,
            ScriptedApprover(),
            asks=False,
            powers=SessionPowers(),
            record=Recorder(self._journal, self._clock, holder.run_id, holder.session_id).record,
            fatal=self.failures.append,
            clock=self._clock,
        )


@asynccontextmanager
async def membranes(
    bench: Bench, providers: str = "", secrets: dict[str, str] | None = None
) -> AsyncIterator[Membranes]:
    """Membranes with a journal of their own, closed at the end."""
    folder = bench.folder / "membranes"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    made = Membranes(folder, providers, secrets)
    try:
        yield made
    finally:
        await asyncio.to_thread(made.close)


@asynccontextmanager
async def bubblewrap(bench: Bench) -> AsyncIterator[Callable[[], Awaitable[Box]]]:
    """Starts bubblewrap boxes with the client in their workspace.

    Raises:
        Missing: they do not start here.
    """
    workspace = project(bench, "crossing")
    shutil.copy(CLIENT, workspace)
    backend = BubblewrapBackend()
    try:
        if not (probe := await backend.probe()).ok:
            raise Missing(probe.reason)
        yield lambda: backend.start(spec(workspace))
    finally:
        await backend.close()


@asynccontextmanager
async def opened(membrane: Membrane, box: Box) -> AsyncIterator[Box]:
    try:
        yield await membrane.open(box)
    finally:
        await membrane.close()


def inside(box: Box, port: int, proxy: int = PROXY_PORT, host: str = "127.0.0.1") -> Ask:
    """The client as a program in a box."""

    async def ask(what: str, amount: int) -> Any:
        words = ("python3", "-I", "-S", CLIENT.name, what, host, str(port), str(amount), str(proxy))
        result = await box.run(Command(words, limits=NO_LIMITS))
        if not result.ok:
            raise RuntimeError(f"the client in the box failed: {result.stderr.text.strip()[-300:]}")
        return json.loads(result.stdout.text)

    return ask


def outside(port: int, proxy: int = 0) -> Ask:
    """The client as a program on the host."""

    async def ask(what: str, amount: int) -> Any:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(CLIENT), what, "127.0.0.1", str(port), str(amount), str(proxy)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        out, problem = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"the client failed: {problem.decode(errors='replace').strip()[-300:]}")
        return json.loads(out)

    return ask


@dataclass(frozen=True, slots=True)
class Ways:
    """Every way to one server that works here."""

    asks: dict[str, Ask]  # The client on that way, by its name: `membrane`, `direct`, `relay`, `mitmproxy`, `squid`
    missing: dict[str, str]  # Why a way is not there


@asynccontextmanager
async def ways(bench: Bench) -> AsyncIterator[Ways]:
    """The server, and everything that leads to it; all of it gone at the end."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving("server.py"))
        relay = await stack.enter_async_context(serving("relay.py", str(server)))
        made = await stack.enter_async_context(membranes(bench))
        start = await stack.enter_async_context(bubblewrap(bench))
        box = await stack.enter_async_context(opened(made.make([f"127.0.0.1:{server}"]), await start()))
        asks = {"membrane": inside(box, server), "direct": outside(server), "relay": outside(relay)}
        missing: dict[str, str] = {}
        for name, contender in (("mitmproxy", mitmproxy), ("squid", squid)):
            try:
                ask = outside(server, await stack.enter_async_context(contender(server)))
                await ask("connect", 1)
                asks[name] = ask
            except (Missing, RuntimeError) as reason:
                missing[name] = str(reason)
        yield Ways(asks, missing)


def guest_pid() -> int:
    """The guest of the only box of this process; 0 when its memory is not to be seen: it hides, from all but root."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = (folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return max(filter(_is_guest, ours), default=0)


def _is_guest(pid: int) -> bool:
    folder = Path("/proc", str(pid))
    try:
        words = (folder / "cmdline").read_bytes()
    except OSError:
        return False
    # The wall around it has its command line as the end of its own.
    return b"kagura_guest" in words and b"--unshare-all" not in words and os.access(folder / "clear_refs", os.W_OK)
