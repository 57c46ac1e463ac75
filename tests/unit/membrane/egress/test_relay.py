import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from kagura_kernel.membrane.egress.stream import CHUNK, EgressLimits, Meter, SocketStream, relay
from kagura_kernel.testing.clock import FakeClock


class Line:
    """A relay between two socket pairs; `box` and `other` are the ends that a test holds."""

    def __init__(self, limits: EgressLimits, clock: FakeClock, run_left: int) -> None:
        self.box, box_end = (SocketStream(one) for one in socket.socketpair())
        self.other, other_end = socket.socketpair()
        self.other.settimeout(0)
        self.out = Meter(limits.bytes_out, Meter(run_left))
        self.into = Meter(limits.bytes_in)
        self._ends = (box_end, other_end)
        self.task = asyncio.create_task(relay(box_end, SocketStream(other_end), self.out, self.into, limits, clock))

    async def receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.other, CHUNK)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.other, data)

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        for one in (self.box, self.other, *self._ends):
            one.close()


@asynccontextmanager
async def line(clock: FakeClock | None = None, run_left: int = 2**40, **limits):
    made = Line(EgressLimits(**limits), clock or FakeClock(), run_left)
    try:
        yield made
    finally:
        await made.close()


async def drained(read) -> bytes:
    whole = bytearray()
    try:
        while data := await read():
            whole += data
    except ConnectionResetError:
        pass
    return bytes(whole)


async def test_bytes_go_both_ways_and_are_counted():
    async with line() as made:
        await made.box.write(b"question")
        assert await made.receive() == b"question"
        await made.send(b"an answer")
        assert await made.box.read(100) == b"an answer"
        await made.box.write_eof()
        assert await made.receive() == b""
        made.other.close()
        assert (await made.task).ended == "done"
        assert (made.out.count, made.into.count) == (8, 9)


async def test_a_side_that_has_no_more_to_say_still_hears_the_other():
    async with line() as made:
        await made.box.write(b"all I have")
        await made.box.write_eof()
        assert await drained(made.receive) == b"all I have"
        await made.send(b"late")
        assert await made.box.read(100) == b"late"
        assert not made.task.done()
        made.other.shutdown(socket.SHUT_WR)
        assert await made.box.read(100) == b""
        assert (await made.task).ended == "done"


async def test_the_other_side_may_finish_first_too():
    async with line() as made:
        made.other.shutdown(socket.SHUT_WR)
        assert await made.box.read(100) == b""
        await made.box.write(b"still here")
        assert await made.receive() == b"still here"
        await made.box.write_eof()
        assert (await made.task).ended == "done"


async def test_not_one_byte_more_than_the_limit_leaves_the_box():
    async with line(bytes_out=1000) as made:
        await made.box.write(b"a" * 5000)
        assert len(await drained(made.receive)) == 1000
        how = await made.task
        assert (how.ended, made.out.count) == ("limit", 1000)
        assert "out of the box" in how.detail


async def test_exactly_the_limit_is_no_cut():
    async with line(bytes_in=1000) as made:
        await made.send(b"a" * 1000)
        made.other.shutdown(socket.SHUT_WR)
        assert len(await drained(lambda: made.box.read(CHUNK))) == 1000
        await made.box.write_eof()
        assert (await made.task).ended == "done"


async def test_a_download_is_cut_at_its_limit():
    async with line(bytes_in=300_000) as made:
        sending = asyncio.create_task(made.send(b"a" * 3_000_000))
        got = await drained(lambda: made.box.read(CHUNK))
        assert len(got) <= 300_000
        assert (await made.task).ended == "limit"
        assert made.into.count == 300_000
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_what_the_whole_run_has_left_is_a_limit_too():
    async with line(run_left=10) as made:
        await made.box.write(b"a" * 100)
        assert len(await drained(made.receive)) == 10
        assert (await made.task).ended == "limit"


async def test_silence_in_both_directions_ends_it_and_a_byte_in_one_keeps_it():
    clock = FakeClock()
    async with line(clock, idle=30.0) as made:
        await clock.until_sleeping()
        await clock.advance(29)
        await made.send(b"x")
        assert await made.box.read(1) == b"x"
        await clock.advance(29)
        assert not made.task.done()
        await clock.advance(31)
        assert (await made.task).ended == "idle"


async def test_a_connection_that_drips_for_ever_ends_at_the_total_time():
    clock = FakeClock()
    async with line(clock, idle=30.0, total=100.0) as made:
        await clock.until_sleeping()
        for _ in range(9):
            await made.box.write(b".")
            await made.receive()
            await clock.advance(11)
        assert not made.task.done()
        await made.box.write(b".")
        await made.receive()
        await clock.advance(11)
        assert (await made.task).ended == "time"


async def test_a_reader_that_stops_stops_the_writer_and_memory_stays_flat():
    async with line() as made:
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await made.send(bytes(CHUNK))
                sent += CHUNK

        sending = asyncio.create_task(flood())
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.05)
        # What fits the buffers of two socket pairs and one chunk in our hands.
        assert sent < 8 * 2**20
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_a_reset_of_one_side_reaches_the_other():
    async with line() as made:
        await made.send(b"unread" * 10)
        made.box.close()
        assert (await made.task).ended in ("reset", "done")
        with pytest.raises(ConnectionError):  # noqa: PT012 - the first one may still fit
            await made.send(b"x")
            await made.send(b"x")


async def test_cancelling_it_leaves_no_task_behind():
    before = asyncio.all_tasks()
    async with line() as made:
        await asyncio.sleep(0.01)
        made.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await made.task
        assert asyncio.all_tasks() == before


def test_a_meter_counts_against_its_run():
    run = Meter(10)
    first, second = Meter(8, run), Meter(8, run)
    first.add(7)
    assert (first.left, second.left) == (1, 3)
    second.add(3)
    assert (first.left, second.left, run.count) == (0, 0, 10)
