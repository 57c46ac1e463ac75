"""The way out of a jail with everything real but the internet: guest, pipe, membrane, proxy, TLS.

Names are what a test says they are, and an address of the public network leads to a server of the test's own.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Address, Gate, dial
from kagura_kernel.membrane.egress.policy import PatternPolicy
from kagura_kernel.membrane.egress.proxy import open_egress
from kagura_kernel.plugins.jail.box import JailParts
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.permissions import JailPlan, NetRule
from kagura_kernel.plugins.sdk.https import HttpsClient
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.box import FakeBackend
from tests.support.included_plugins import included_jail, planned_jail
from tests.support.tls import authority, serving
from tests.support.upstream import Answer, RawUpstream

PUBLIC = "93.184.216.34"
"""An address that may be reached, so far as the membrane knows; nothing is ever sent there."""

HOST = "api.example.com"


@dataclass
class Internet:
    """What there is outside of the jail."""

    # What the resolver answers, call by call; the last answer stays
    names: dict[str, list[list[str]]] = field(default_factory=lambda: {HOST: [[PUBLIC]]})
    servers: dict[str, int] = field(default_factory=dict)  # Where an address really leads to: a port of the loopback
    looked_up: list[str] = field(default_factory=list)  # The names that were asked for
    dialled: list[str] = field(default_factory=list)  # The addresses that were connected to
    records: list[EgressDecided | EgressClosed] = field(default_factory=list)  # What the membrane decided

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The next answer for this name."""
        del port
        self.looked_up.append(host)
        if host not in self.names:
            raise socket.gaierror(-2, "Name or service not known")
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, address: Address, port: int) -> socket.socket:
        """A connection to the server that this address stands for."""
        self.dialled.append(f"{address}:{port}")
        if str(address) not in self.servers:
            raise ConnectionRefusedError(111, "Connection refused")
        return await dial(IPv4Address("127.0.0.1"), self.servers[str(address)])


@dataclass
class Rig:
    """A client, the internet, and the server behind `PUBLIC`."""

    internet: Internet  # What the membrane finds
    server: RawUpstream  # What `api.example.com` is
    port: int  # Of the proxy

    def client(self, *allowed: str, **arguments: Any) -> HttpsClient:
        """A client as the plugin has it, which believes the test's authority."""
        return HttpsClient(allowed or ("example.com",), trust=authority().decode(), proxy=self.port, **arguments)

    async def fetch(self, client: HttpsClient, *arguments: Any, **named: Any) -> dict[str, Any]:
        """What the client's `fetch` answers; it blocks, so that it needs a thread."""
        return await asyncio.to_thread(client.fetch, *arguments, **named)


OpenRig = Callable[..., AbstractAsyncContextManager[Rig]]


@asynccontextmanager
async def open_rig(
    answer: Answer | None = None, *, host: str = HOST, rules: Sequence[NetRule] = ()
) -> AsyncIterator[Rig]:
    rules = rules or (NetRule("name", "example.com", 443),)
    internet = Internet()
    backend = FakeBackend()
    problems: list[BaseException] = []
    async with RawUpstream(answer, tls=serving(host)) as server:
        internet.servers[PUBLIC] = server.port
        try:
            box = await backend.start(BoxSpec())
            gate = Gate(PatternPolicy(tuple(rules)), internet.resolve, dial_one=internet.connect)
            egress = Egress(gate, internet.records.append)
            yield Rig(internet, server, await open_egress(box, egress, failed=problems.append))
        finally:
            await backend.close()
    assert problems == []


@pytest.fixture
def rig() -> OpenRig:
    """A membrane whose rules let `example.com` and below it through, and a server for `api.example.com`."""
    return open_rig


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    """What every jail of the test finds outside; use its `resolve` as the jails' resolver."""
    found = Internet()
    monkeypatch.setattr("kagura_kernel.plugins.jail.box.Gate", partial(Gate, dial_one=found.connect))
    return found


# ------------------------------------------------------------------------ jails

Enable = Callable[..., AbstractAsyncContextManager[Jail]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's home, with a project in it."""
    (tmp_path / "project").mkdir()
    return tmp_path


@pytest.fixture
def enabled(home: Path) -> Enable:
    """The jail of an included plugin with these values, in a real box, as an async context."""

    @asynccontextmanager
    async def opened(
        name: str, *, change: Callable[[bytes], bytes] = bytes, parts: JailParts | None = None, **values: Any
    ) -> AsyncIterator[Jail]:
        backend = BubblewrapBackend()
        made = replace(parts, start_box=backend.start) if parts else JailParts(backend.start)
        try:
            async with included_jail(name, values, home, made, change) as jail:
                yield jail
        finally:
            await backend.close()

    return opened


@pytest.fixture
def plan(home: Path) -> Callable[..., JailPlan]:
    """The plan of an included plugin's jail with these values."""
    return lambda name, **values: planned_jail(name, values, home)
