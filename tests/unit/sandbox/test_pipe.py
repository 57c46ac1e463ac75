import asyncio
import os
import socket

import pytest

from kagura_kernel.sandbox.pipe import LOW, FdPipe


class Collected:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.why: list[str] = []
        self._room = bytearray(1000)
        self.over = asyncio.Event()

    def get_buffer(self) -> memoryview:
        return memoryview(self._room)

    def buffer_updated(self, count: int) -> None:
        self.data += self._room[:count]

    def feed(self, data: bytes) -> None:
        self.data += data

    def ended(self, why: str) -> None:
        self.why.append(why)
        self.over.set()


@pytest.fixture
async def ends():
    ours, theirs = socket.socketpair()
    fd = ours.detach()
    pipe = FdPipe(fd, fd)
    yield pipe, theirs
    pipe.close()
    theirs.close()


async def test_what_is_read_comes_in_order_and_then_the_end(ends):
    pipe, theirs = ends
    sink = Collected()
    pipe.start(sink)
    theirs.sendall(b"x" * 2500 + b"end")
    theirs.close()
    await asyncio.wait_for(sink.over.wait(), 60)
    assert bytes(sink.data) == b"x" * 2500 + b"end"
    assert len(sink.why) == 1


async def test_writing_never_blocks_and_all_of_it_arrives_in_order(ends):
    pipe, theirs = ends
    pipe.start(Collected())
    sent = b"".join(b"%08d" % n for n in range(500_000))
    for start in range(0, len(sent), 10_000):
        pipe.write(sent[start : start + 5_000], memoryview(sent)[start + 5_000 : start + 10_000])
    assert pipe.backlog > LOW
    waiting = asyncio.create_task(pipe.drained())
    theirs.setblocking(False)  # noqa: FBT003 - the socket's own signature
    got = bytearray()
    while len(got) < len(sent):
        got += await asyncio.get_running_loop().sock_recv(theirs, 1_000_000)
    assert bytes(got) == sent
    await asyncio.wait_for(waiting, 60)
    assert pipe.backlog == 0


async def test_a_callers_buffer_may_be_used_again(ends):
    pipe, theirs = ends
    pipe.start(Collected())
    filler = b"f" * 4_000_000
    pipe.write(filler)
    buffer = bytearray(b"before")
    pipe.write(buffer)
    buffer[:] = b"after!"
    theirs.setblocking(False)  # noqa: FBT003 - the socket's own signature
    got = bytearray()
    while len(got) < len(filler) + 6:
        got += await asyncio.get_running_loop().sock_recv(theirs, 1_000_000)
    assert got[-6:] == b"before"


async def test_whoever_waits_is_let_go_when_the_pipe_closes(ends):
    pipe, _theirs = ends
    pipe.start(Collected())
    pipe.write(b"x" * 5_000_000)
    waiting = asyncio.create_task(pipe.drained())
    await asyncio.sleep(0)
    pipe.close()
    await asyncio.wait_for(waiting, 60)
    pipe.write(b"nobody")
    pipe.close()


async def test_closing_frees_both_descriptors():
    read_end, their_write = os.pipe()
    their_read, write_end = os.pipe()
    pipe = FdPipe(read_end, write_end)
    pipe.start(Collected())
    pipe.close()
    for fd in (read_end, write_end):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    os.close(their_write)
    os.close(their_read)


async def test_writing_to_a_pipe_that_nobody_reads_any_more_is_no_error():
    read_end, their_write = os.pipe()
    their_read, write_end = os.pipe()
    pipe = FdPipe(read_end, write_end)
    sink = Collected()
    pipe.start(sink)
    os.close(their_read)
    pipe.write(b"x")
    os.close(their_write)
    await asyncio.wait_for(sink.over.wait(), 60)
    pipe.close()
