"""The pipe over an exec stream: TLS that is loud both ways at once, and servers that say nothing."""

import asyncio
import json
import os
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from websocket import ABNF, WebSocket

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.kubernetes import cluster, stream
from kagura_kernel.sandbox.kubernetes.cluster import Cluster
from kagura_kernel.sandbox.kubernetes.stream import ExecPipe
from kagura_kernel.testing.patience import eventually
from tests.support.tls import serving, trusting

_HERE = "127.0.0.1"
_PIECE = os.urandom(32 * 1024)
_PIECES = 400


class Sink:
    """What a pipe delivered."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.why = ""

    def get_buffer(self) -> memoryview:
        raise AssertionError("this pipe feeds")

    def buffer_updated(self, count: int) -> None:
        raise AssertionError(f"this pipe feeds, and not {count} bytes")

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data

    def ended(self, why: str) -> None:
        self.why = why


def frame(data: bytes, code: int = ABNF.OPCODE_BINARY, *, fin: int = 1) -> bytes:
    return ABNF(fin, 0, 0, 0, code, 0, data).format()


async def heard(reader: StreamReader) -> tuple[int, bytes]:
    """One frame of the client: its kind and its content."""
    first, second = await reader.readexactly(2)
    length = second & 0x7F
    if length == ABNF.LENGTH_7:
        length = int.from_bytes(await reader.readexactly(2), "big")
    mask = await reader.readexactly(4)
    return first & 0xF, ABNF.mask(mask, await reader.readexactly(length))


@asynccontextmanager
async def connected(serve: Callable[[StreamReader, StreamWriter], Awaitable[None]]) -> AsyncIterator[ExecPipe]:
    """A pipe to a server over TLS, from the moment after the handshake of the WebSocket."""

    async def served(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(served, _HERE, 0, ssl=serving(_HERE))
    port = server.sockets[0].getsockname()[1]

    def connect() -> WebSocket:
        made = WebSocket()
        made.sock = trusting().wrap_socket(socket.create_connection((_HERE, port)), server_hostname=_HERE)
        return made

    pipe = ExecPipe(await asyncio.to_thread(connect))
    try:
        yield pipe
    finally:
        pipe.close()
        server.close()


async def test_both_directions_at_once() -> None:
    """Nothing is lost or mixed while each side waits for the other now and then."""
    arrived = sha256()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        async def speak() -> None:
            for _ in range(_PIECES):
                writer.write(frame(b"\x01" + _PIECE))
                await writer.drain()

        speaking = asyncio.ensure_future(speak())
        while (told := await heard(reader))[0] != ABNF.OPCODE_CLOSE:
            assert told[1][:1] == b"\x00"
            arrived.update(told[1][1:])
        await speaking

    sink = Sink()
    async with connected(serve) as pipe:
        pipe.start(sink)
        for _ in range(_PIECES):
            pipe.write(_PIECE[:100], _PIECE[100:])
            await pipe.drained()
        await eventually(lambda: len(sink.data) == len(_PIECE) * _PIECES and not pipe.backlog)
        assert not sink.why
    whole = sha256(_PIECE * _PIECES).digest()
    assert sha256(sink.data).digest() == whole
    await eventually(lambda: arrived.digest() == whole)


async def test_what_came_before_it_began_to_read_and_messages_in_fragments() -> None:
    """TLS holds messages that no socket tells of; proxies may cut them into fragments, with a ping in between."""
    asked = asyncio.get_running_loop().create_future()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        many = [frame(b"\x01" + bytes((number,))) for number in range(100)]
        cut = [frame(b"\x01ab", fin=0), frame(b"here?", ABNF.OPCODE_PING), frame(b"cd", ABNF.OPCODE_CONT)]
        failed = frame(b"\x03" + json.dumps({"status": "Failure", "message": "command terminated"}).encode())
        writer.write(b"".join((*many, *cut, frame(b"\x02no room"), failed)))
        asked.set_result(await heard(reader))

    sink = Sink()
    async with connected(serve) as pipe:
        pipe.start(sink)
        assert await asked == (ABNF.OPCODE_PONG, b"here?")
        await eventually(lambda: pipe.words == "no room\ncommand terminated")
    assert sink.data == bytes(range(100)) + b"abcd"


async def test_a_line_that_is_silent_though_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked first, and only then given up."""
    asked = asyncio.Event()

    async def serve(reader: StreamReader, _: StreamWriter) -> None:
        assert await heard(reader) == (ABNF.OPCODE_PING, b"")
        asked.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(stream, "_PING_SECONDS", 0.05)
    monkeypatch.setattr(stream, "_SILENCE", 0.12)
    sink = Sink()
    async with connected(serve) as pipe:
        pipe.start(sink)
        await eventually(lambda: sink.why)
        assert asked.is_set()
        assert "nothing came" in sink.why
        pipe.write(b"to nobody")
        assert pipe.backlog == 0
        await pipe.drained()


async def test_a_line_that_breaks() -> None:
    async def serve(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(frame(b"\x01last"))
        await writer.drain()
        writer.transport.abort()

    sink = Sink()
    async with connected(serve) as pipe:
        pipe.start(sink)
        await eventually(lambda: sink.why)
    assert "connection" in sink.why


async def test_a_server_that_opens_no_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a proxy that lets no WebSockets through; nobody waits for it for ever."""
    monkeypatch.setattr(cluster, "_SECONDS", 0.2)
    with socket.create_server((_HERE, 0)) as mute:
        where = {"name": "a", "cluster": {"server": f"http://{_HERE}:{mute.getsockname()[1]}"}}
        user = {"name": "a", "user": {"token": "a-token"}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "boxes"}}
        lists = {"clusters": [where], "users": [user], "contexts": [context], "current-context": "a"}
        config = tmp_path / "config"
        config.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **lists}))
        with pytest.raises(SandboxUnavailable, match="opens no stream to box"):
            await Cluster(config=str(config)).execute("box", "box", ("true",))
