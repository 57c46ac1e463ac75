"""A listening proxy with real sockets, servers that say who they are, and network namespaces of the tests' own."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.membrane.egress.asking import Asking
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.limits import EgressLimits
from kagura_kernel.membrane.egress.listening import ProxyListener
from kagura_kernel.membrane.egress.policy import parse_grants

CLONE_NEWNET = 0x4000_0000

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Proxy:
    """A proxy of one run that is listening.

    Attributes:
        address: What clients connect to: host and port, or the path of a unix socket.
        names: What its resolver answers, call by call; the last answer stays.
        asked: The names it was asked for.
    """

    address: tuple[str, int] | str = ""
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    records: list[EgressDecided | EgressClosed] = field(default_factory=list)
    problems: list[BaseException] = field(default_factory=list)
    listener: ProxyListener | None = None

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The next answer for this name."""
        del port
        self.asked.append(host)
        if host not in self.names:
            raise socket.gaierror(-2, "Name or service not known")
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client's connection to it."""
        if isinstance(self.address, str):
            return await asyncio.open_unix_connection(self.address)
        return await asyncio.open_connection(*self.address)

    async def ask(self, request: bytes) -> bytes:
        """Everything it answers to a request until it closes."""
        reader, writer = await self.open()
        try:
            writer.write(request)
            return await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()

    async def tunnel(self, target: str) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """The status line of a CONNECT, and the tunnel."""
        reader, writer = await self.open()
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        return head.partition(b"\r\n")[0], reader, writer


@asynccontextmanager
async def open_proxy(
    *words: str,
    names: dict[str, list[list[str]]] | None = None,
    asking: Asking | None = None,
    unix: str = "",
    heads: int = 256,
    head_seconds: float = 10.0,
    **limits: float,
) -> AsyncIterator[Proxy]:
    proxy = Proxy(names=names or {})
    bounds = EgressLimits(**limits)
    gate = Gate(parse_grants(words), proxy.resolve, asking=asking, limits=bounds)
    egress = Egress(gate, proxy.records.append, run_id="run-1", session_id="ses-1", limits=bounds)
    proxy.listener = ProxyListener(egress, proxy.problems.append, heads=heads, head_seconds=head_seconds)
    listening = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    listening.bind(unix or ("127.0.0.1", 0))
    listening.listen(1024)
    proxy.address = unix or listening.getsockname()
    proxy.listener.start(listening)
    try:
        yield proxy
    finally:
        await proxy.listener.close()
    assert proxy.problems == []


@asynccontextmanager
async def open_server(talk: Talk, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """A server on this address; its port."""

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(closing, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def says_who_it_is(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Its own address, at once."""
    del reader
    host, port, *_ = writer.get_extra_info("sockname")
    writer.write(f"I am {host} {port}".encode())
    await writer.drain()


async def echoes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Every byte back, until there are no more."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@pytest.fixture
def proxying():
    """A proxy that listens, with these grants, names and limits, as an async context."""
    return open_proxy


@pytest.fixture
def serving():
    """A server of this talk on this host and port, as an async context that gives its port."""
    return open_server


@pytest.fixture
def identity() -> Talk:
    """A server's talk: it says its own address."""
    return says_who_it_is


@pytest.fixture
def echo() -> Talk:
    """A server's talk: every byte comes back."""
    return echoes


@pytest.fixture
def in_a_namespace() -> Callable[[Sequence[str], Callable[[], Awaitable[None]]], None]:
    """Runs a coroutine in a network namespace of its own, whose loopback has these addresses; root is needed."""

    def run(addresses: Sequence[str], work: Callable[[], Awaitable[None]]) -> None:
        problems: list[BaseException] = []

        def inside() -> None:
            try:
                # The namespace belongs to this thread and what it starts, and is gone with them.
                left = ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET)
                assert left == 0, os.strerror(ctypes.get_errno())
                subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
                for address in addresses:
                    subprocess.run(["ip", "address", "add", address, "dev", "lo"], check=True)
                asyncio.run(asyncio.wait_for(work(), 60))  # type: ignore[arg-type]
            except BaseException as error:  # noqa: BLE001 - it is raised again, on the test's own thread
                problems.append(error)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        if problems:
            raise problems[0]

    return run
