"""A box whose proxy is a run's egress, servers that say who they are, and network namespaces of the tests' own."""

import asyncio
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kagura_kernel.domain.commands import Command, CommandResult, shell_command
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.policy import Asking, parse_grants
from kagura_kernel.membrane.egress.proxy import open_egress, proxy_variables
from kagura_kernel.membrane.egress.stream import EgressLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.patience import wait_until
from tests.support.docker_images import BASE
from tests.support.effort import EVERYTHING

CLONE_NEWNET = 0x4000_0000

PATIENCE = CommandLimits(100.0, None)
"""Only a program that hangs takes so long."""

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Proxy:
    """A box of one run, and the proxy in it."""

    box: Box
    port: int = 0  # The proxy's, on the loopback of the box
    # What its resolver answers, call by call; the last answer stays
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # The names it was asked for
    records: list[EgressDecided | EgressClosed] = field(default_factory=list)
    problems: list[BaseException] = field(default_factory=list)

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
        return await asyncio.open_connection("127.0.0.1", self.port)

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

    async def sh(self, line: str, **env: str) -> CommandResult:
        """What a shell line in the box gives, with the variables that every command of a run has."""
        variables = proxy_variables(self.port) | env
        return await self.box.run(shell_command(line, env=variables, limits=PATIENCE))

    async def python(self, code: str, *arguments: object, **env: str) -> Any:
        """What a program in the box found: the JSON that it printed. `PORT` and its arguments, `ARGS`, are there."""
        head = f"import json, sys\nPORT, ARGS = {self.port}, json.loads(sys.argv[1])\n"
        argv = ("python3", "-I", "-c", head + code, json.dumps(arguments))
        command = Command(argv, env=proxy_variables(self.port) | env, limits=PATIENCE, keep_bytes=2**24)
        result = await self.box.run(command)
        assert result.ok, result.stderr.text
        return json.loads(result.stdout.text)

    def verdicts(self) -> set[tuple[str, int, bool]]:
        """Every place that was asked for, and whether it was let through."""
        return {(fact.host, fact.port, fact.allowed) for fact in self.records if isinstance(fact, EgressDecided)}


@asynccontextmanager
async def open_proxy(
    *words: str,
    names: dict[str, list[list[str]]] | None = None,
    asking: Asking | None = None,
    python: str | None = None,
    backend: SandboxBackend | None = None,
    **limits: float,
) -> AsyncIterator[Proxy]:
    backend = backend or FakeBackend(python)
    try:
        proxy = Proxy(await backend.start(BoxSpec()), names=names or {})
        bounds = EgressLimits(**limits)
        gate = Gate(parse_grants(words), proxy.resolve, asking=asking, limits=bounds)
        egress = Egress(gate, proxy.records.append, run_id="run-1", session_id="ses-1", limits=bounds)
        proxy.port = await open_egress(proxy.box, egress, failed=proxy.problems.append)
        yield proxy
    finally:
        await backend.close()
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


def is_there(address: str) -> bool:
    """Whether an address, written with its length, can be bound and reached."""
    host = address.partition("/")[0]
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
            probe.connect((host, 9))  # sends nothing
        except OSError:
            return False
    return True


async def echoes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Every byte back, until there are no more."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@pytest.fixture
def proxying():
    """A box with a proxy, and these grants, names and limits, as an async context.

    The box has no walls, so that clients in the test's own process can be the programs in it; one of a `backend` has.
    """
    return open_proxy


IN_DOCKER = pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.timeout(600)])


def _walls(request: pytest.FixtureRequest) -> Callable[[], SandboxBackend]:
    if request.param == "docker":
        endpoint = request.getfixturevalue("docker_endpoint")
        return lambda: DockerBackend(endpoint, default_image=BASE)
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not here")
    return BubblewrapBackend


@pytest.fixture(params=["bubblewrap", IN_DOCKER])
def walls(request: pytest.FixtureRequest) -> Callable[[], SandboxBackend]:
    """Makes a back-end whose boxes have walls, and curl and Python in them; whoever makes it closes it."""
    return _walls(request)


@pytest.fixture(params=["bubblewrap", *([IN_DOCKER] if EVERYTHING else [])])
def some_walls(request: pytest.FixtureRequest) -> Callable[[], SandboxBackend]:
    """As `walls`, of one kind, for what the membrane alone decides: the same bytes come to it from boxes of any kind.

    That a stream of any box carries them whole, in crowds and at their own pace, is proved by the suite of boxes.
    """
    return _walls(request)


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
                # The kernel first looks for another one like it, and sets an IPv6 address up in its own time.
                wait_until(lambda: all(map(is_there, addresses)))
                asyncio.run(asyncio.wait_for(work(), 110))  # type: ignore[arg-type]
            except BaseException as error:  # noqa: BLE001 - it is raised again, on the test's own thread
                problems.append(error)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        if problems:
            raise problems[0]

    return run
