"""A box with databases in it, for tests; clients as rude as a test wants, and servers that say what it wants."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.membrane.egress.stream import EgressLimits
from kagura_kernel.membrane.postgres.port import SERVICE_LIMITS, PostgresParts, open_service
from kagura_kernel.membrane.postgres.service import PostgresService, parse_url
from kagura_kernel.membrane.postgres.wire import parse_fields, startup
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.patience import PATIENCE, eventually

Talk = Callable[["Heard"], Awaitable[None]]


@dataclass
class PostgresRig:
    """A box, and what the membrane did for it."""

    box: Box  # The box; by default one without walls, so that a client in the test's own process can be a program in it
    names: dict[str, list[str]] = field(default_factory=dict)  # What its resolver answers
    facts: list[EgressDecided | EgressClosed] = field(default_factory=list)  # What was recorded
    # What failed that was not a program's doing; the rig's end asserts that there is none
    problems: list[BaseException] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name that the test knows."""
        del port
        if host not in self.names:
            raise socket.gaierror(-2, "Name or service not known")
        return self.names[host]

    async def open(
        self,
        url: str,
        *,
        port: int = 0,
        private: bool = True,
        limits: EgressLimits = SERVICE_LIMITS,
        statement_seconds: float = 30.0,
    ) -> PostgresService:
        """The database of a URL, put into the box; its `jail_port` is where it is there."""
        service = parse_url(url, jail_port=port, private=private)
        parts = PostgresParts(
            self.resolve,
            self.facts.append,
            plugin="sql-read",
            session_id="ses-1",
            statement_seconds=statement_seconds,
            limits=limits,
            failed=self.problems.append,
        )
        return parse_url(url, jail_port=await open_service(self.box, service, parts))

    @property
    def allowed(self) -> list[EgressDecided]:
        """Connections that were let through."""
        return [fact for fact in self.facts if isinstance(fact, EgressDecided) and fact.allowed]

    @property
    def ends(self) -> list[EgressClosed]:
        return [fact for fact in self.facts if isinstance(fact, EgressClosed)]


@asynccontextmanager
async def postgres_rig(backend: SandboxBackend | None = None) -> AsyncIterator[PostgresRig]:
    """A box for the length of a block; at its end nothing of what was opened for it may be left."""
    backend = backend or FakeBackend()
    before = asyncio.all_tasks()
    held = _sockets()
    try:
        rig = PostgresRig(await backend.start(BoxSpec()))
        yield rig
        # Every connection that was let through ends, and is written down.
        await eventually(lambda: len(rig.ends) == len(rig.allowed))
    finally:
        await backend.close()
    assert rig.problems == [], rig.problems
    await eventually(lambda: not (asyncio.all_tasks() - before))
    await eventually(lambda: _sockets() <= held)


def _sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - descriptors come and go under a walk
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")  # noqa: PTH115 - no path
        except OSError:
            continue
    return found


# --------------------------------------------------------------------- clients


class RawClient:
    """A program in the box that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, data: bytes) -> None:
        """Send these bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def start(self, **parameters: str) -> None:
        """Ask for a session."""
        await self.say(startup({"user": "nobody", **parameters}))

    async def hear(self) -> tuple[bytes, bytes]:
        """The next message: its letter and body."""
        kind, length = struct.unpack("!ci", await asyncio.wait_for(self.reader.readexactly(5), PATIENCE))
        return kind, await self.reader.readexactly(length - 4)

    async def until(self, wanted: bytes) -> dict[bytes, bytes]:
        """The last body of each kind of message up to one of this kind."""
        found: dict[bytes, bytes] = {}
        while wanted not in found:
            kind, body = await self.hear()
            found[kind] = body
        return found

    async def rest(self) -> bytes:
        """Everything until it is over, however it ends."""
        whole = bytearray()
        try:
            while data := await asyncio.wait_for(self.reader.read(65536), PATIENCE):
                whole += data
        except ConnectionError:
            pass
        return bytes(whole)

    async def refusal(self) -> dict[str, str]:
        """The fields of the error that is all it gets."""
        kind, body = await self.hear()
        assert kind == b"E", (kind, body)
        assert await self.rest() == b""
        return parse_fields(body)


@asynccontextmanager
async def raw_client(port: int) -> AsyncIterator[RawClient]:
    """A connection to a port of the box."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


# --------------------------------------------------------------------- servers


class Heard:
    """A server's side of one connection: what came, and a way to answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def packet(self) -> bytes:
        """The next packet without a letter, its length left out."""
        (length,) = struct.unpack("!i", await self.reader.readexactly(4))
        return await self.reader.readexactly(length - 4)

    async def message(self) -> tuple[bytes, bytes]:
        kind, length = struct.unpack("!ci", await self.reader.readexactly(5))
        return kind, await self.reader.readexactly(length - 4)

    async def say(self, data: bytes) -> None:
        """Send these bytes."""
        self.writer.write(data)
        await self.writer.drain()


class ScriptedPostgres:
    """A server on 127.0.0.1 that talks as it is told; an async context manager."""

    def __init__(self, talk: Talk) -> None:
        self.connections = 0  # How many were made
        self.open = 0  # How many have not ended
        self.heard = bytearray()  # Everything that it was sent, after what its talk has read
        self._talk = talk
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None, "use it in an `async with` statement"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def url(self, **parameters: str) -> str:
        """The URL of a database there, with the password `hunter2secret`."""
        query = "&".join(f"{name}={value}" for name, value in {"sslmode": "disable", **parameters}.items())
        return f"postgresql://alice:hunter2secret@127.0.0.1:{self.port}/sales?{query}"

    async def __aenter__(self) -> Self:
        """Listening when it returns."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Every connection is cut when it returns."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self.open += 1
        try:
            await self._talk(Heard(reader, writer))
            while data := await reader.read(65536):
                self.heard += data
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other side hung up, which is what a hostile server is for
        finally:
            self.open -= 1
            writer.transport.abort()
