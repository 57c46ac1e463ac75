"""Docker's records, taken apart however they are cut, and a daemon that is not what it should be."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.docker.attach import Demultiplexer, attach
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.pipe import Buffer


class Sink:
    """Keeps what a pipe delivers; the smallest `PipeSink`."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.over = asyncio.Event()
        self.why = ""

    def get_buffer(self) -> memoryview:
        return memoryview(bytearray(1))

    def buffer_updated(self, count: int) -> None:
        raise AssertionError(count)

    def feed(self, data: Buffer) -> None:
        self.data += data

    def ended(self, why: str) -> None:
        self.why = why
        self.over.set()


def record(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=20), st.integers(1, 30))
def test_records_come_out_the_same_however_they_are_cut(records: list[tuple[int, bytes]], step: int):
    sink = Sink()
    demultiplexer = Demultiplexer(sink)
    wire = b"".join(record(stream, data) for stream, data in records)
    for start in range(0, len(wire), step):
        assert demultiplexer.feed(wire[start : start + step]) == ""
    assert bytes(sink.data) == b"".join(data for stream, data in records if stream == 1)
    assert bytes(demultiplexer.stderr) == b"".join(data for stream, data in records if stream == 2)


def test_only_the_last_of_standard_error_is_kept():
    demultiplexer = Demultiplexer(Sink())
    for number in range(100):
        demultiplexer.feed(record(2, b"%4d" % number * 100))
    assert len(demultiplexer.stderr) == 4096
    assert demultiplexer.stderr.endswith(b"  99")


@pytest.mark.parametrize(
    "head", [b"\x00\0\0\0\0\0\0\x01", b"\x03\0\0\0\0\0\0\x01", b"\x01\0\0\x01\0\0\0\x01", b"HTTP/1.1"]
)
def test_what_is_no_record_is_told(head: bytes):
    assert "records" in Demultiplexer(Sink()).feed(head)


# ------------------------------------------------------------- a false daemon

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n"


async def daemon(tmp_path: Path, answer: Answer) -> tuple[asyncio.Server, Endpoint]:
    path = tmp_path / "engine.sock"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            await answer(reader, writer)
        finally:
            writer.close()

    return await asyncio.start_unix_server(serve, path), Endpoint(f"unix://{path}")


async def test_what_the_guest_said_before_anyone_listened_is_not_lost(tmp_path: Path):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(UPGRADED + record(1, b"early"))
        writer.write(record(1, await reader.readexactly(4)) + record(2, b"oh"))
        await writer.drain()

    server, endpoint = await daemon(tmp_path, answer)
    async with server:
        pipe = await attach(endpoint, "/attach")
        sink = Sink()
        pipe.write(b"la", bytearray(b"te"))
        pipe.start(sink)
        await asyncio.wait_for(sink.over.wait(), 60)
        assert bytes(sink.data) == b"earlylate"
        assert pipe.stderr == "oh"
        assert sink.why == "its container ended"
        pipe.write(b"into the void")
        await pipe.drained()
        pipe.close()
        pipe.close()


async def test_a_daemon_that_talks_nonsense_ends_the_pipe(tmp_path: Path):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(UPGRADED + b"not a record at all")
        await reader.read()

    server, endpoint = await daemon(tmp_path, answer)
    async with server:
        pipe = await attach(endpoint, "/attach")
        sink = Sink()
        pipe.start(sink)
        await asyncio.wait_for(sink.over.wait(), 60)
        assert "records" in sink.why
        assert not sink.data


@pytest.mark.parametrize("reply", [b"HTTP/1.1 404 Not Found\r\n\r\n", b"", b"x" * 100_000])
async def test_a_daemon_that_does_not_attach_is_an_error(tmp_path: Path, reply: bytes):
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        await asyncio.sleep(0)

    server, endpoint = await daemon(tmp_path, answer)
    async with server:
        with pytest.raises(SandboxUnavailable, match="attach"):
            await attach(endpoint, "/attach")


async def test_no_daemon_is_an_error(tmp_path: Path):
    with pytest.raises(SandboxUnavailable, match="does not answer"):
        await attach(Endpoint(f"unix://{tmp_path / 'nobody.sock'}"), "/attach")


async def test_cancelling_an_attach_frees_the_connection(tmp_path: Path):
    here, gone = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        here.set()
        await reader.read()
        gone.set()

    server, endpoint = await daemon(tmp_path, answer)
    async with server:
        attaching = asyncio.create_task(attach(endpoint, "/attach"))
        await here.wait()
        attaching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attaching
        await asyncio.wait_for(gone.wait(), 60)


async def test_a_daemon_that_takes_nothing_makes_the_writer_wait(tmp_path: Path):
    go_on = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(UPGRADED)
        await go_on.wait()
        await reader.readexactly(4_000_000)

    server, endpoint = await daemon(tmp_path, answer)
    async with server:
        pipe = await attach(endpoint, "/attach")
        pipe.start(Sink())
        pipe.write(bytes(4_000_000))
        assert pipe.backlog > 1_000_000
        waiting = asyncio.create_task(pipe.drained())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        go_on.set()
        await asyncio.wait_for(waiting, 60)
        pipe.close()
