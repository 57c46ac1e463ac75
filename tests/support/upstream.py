"""An HTTP upstream on the loopback that says exactly what it is told to, with TLS where it is given a context.

It keeps what it was sent, secrets included: the tests look for them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

import h11


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came."""

    method: str  # `GET`, …
    target: str  # With its query
    headers: tuple[tuple[str, str], ...]  # Names in lower case, in order
    body: bytes  # All of it, unless the answer does not wait for it

    def header(self, name: str) -> str:
        """The only value of a header; empty when there is none."""
        values = [value for known, value in self.headers if known == name]
        assert len(values) < 2, f"{name} was sent {len(values)} times"
        return values[0] if values else ""


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[bool]]
"""Writes the raw answer; whether the connection stays open."""


def plain(body: bytes = b"", status: int = 200, **headers: str) -> Answer:
    """An answer with a length; `_` in a header's name stands for `-`."""

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> bool:
        lines = [f"HTTP/1.1 {status} OK", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return True

    return answer


def chunked(*pieces: bytes) -> Answer:
    """An answer in these chunks, each sent on its own."""

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    return answer


class RawUpstream:
    """Listens on 127.0.0.1 at a free port of the running loop; an async context manager."""

    def __init__(self, answer: Answer | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []  # Every request whose body was read, in order
        self.connections = 0  # How many were made
        self.answer = answer or plain(b"ok")  # What it answers; may be replaced at any time
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers: set[asyncio.StreamReader] = set()

    @property
    def waiting(self) -> int:
        """How many clients are connected that have not hung up."""
        return sum(not reader.at_eof() for reader in self._readers)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None, "use it in an `async with` statement"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """Its base URL, by address."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        """Listening when it returns."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Every connection is cut when it returns."""
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self._readers.add(reader)
        try:
            while (asked := await _request(reader, writer)) is not None:
                self.asked.append(asked)
                if not await self.answer(asked, writer):
                    break
        except (OSError, h11.RemoteProtocolError):
            return  # the other side hung up
        finally:
            self._readers.discard(reader)
            writer.transport.abort()


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=256 * 1024)
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            if http.they_are_waiting_for_100_continue:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            http.receive_data(await reader.read(64 * 1024))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = tuple((name.decode(), value.decode("latin-1")) for name, value in head.headers)
            return Asked(head.method.decode(), head.target.decode(), headers, bytes(body))
        else:
            return None
