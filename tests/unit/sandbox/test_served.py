import asyncio
import json

import pytest

from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.listeners import ServedStream
from kagura_kernel.sandbox.streams import WireError

WINDOW = 1000


class Sent:
    """A sender that keeps what it was given, and is full when it is told to be."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.free = asyncio.Event()
        self.free.set()

    def send(self, kind: int, _stream: int, *parts: bytes | memoryview) -> None:
        self.frames.append((kind, b"".join(bytes(part) for part in parts)))

    async def drained(self) -> None:
        await self.free.wait()

    def data(self) -> bytes:
        return b"".join(payload for kind, payload in self.frames if kind == frames.DATA)

    def kinds(self) -> list[int]:
        return [kind for kind, _ in self.frames]


@pytest.fixture
async def sent():
    return Sent()


@pytest.fixture
async def stream(sent):
    return ServedStream(2, {"name": "x"}, sent, asyncio.Lock(), may_send=WINDOW, may_receive=WINDOW)


async def settled() -> None:
    """Everything that can go on without anybody's help has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_accepting_says_how_much_may_be_sent(stream, sent):
    await stream.accept()
    assert [(kind, json.loads(payload)) for kind, payload in sent.frames] == [(frames.ACCEPT, {"credit": WINDOW})]


async def test_a_connection_is_accepted_or_refused_once(stream, sent):
    await stream.refuse(403, "no")
    for again in (stream.accept(), stream.refuse(403, "no")):
        with pytest.raises(RuntimeError):
            await again
    stream.close()
    stream.abort()
    assert sent.kinds() == [frames.RESULT]


async def test_a_read_waits_for_the_first_byte_and_gives_no_more_than_asked(stream):
    await stream.accept()
    reading = asyncio.create_task(stream.read(3))
    await settled()
    assert not reading.done()
    stream.received(memoryview(b"abcdef"))
    assert await reading == b"abc"
    assert await stream.read(100) == b"def"
    stream.heard_eof()
    assert await stream.read(100) == b""


async def test_credit_comes_back_only_for_what_was_read(stream, sent):
    await stream.accept()
    stream.received(memoryview(b"x" * WINDOW))
    assert frames.CREDIT not in sent.kinds()
    await stream.read(WINDOW // 2)
    assert sent.frames[-1] == (frames.CREDIT, frames.CREDIT_BODY.pack(WINDOW // 2))
    stream.received(memoryview(b"x" * (WINDOW // 2)))
    with pytest.raises(WireError, match="credit"):
        stream.received(memoryview(b"x"))


async def test_a_write_waits_for_credit_and_for_the_pipe(stream, sent):
    await stream.accept()
    writing = asyncio.create_task(stream.write(bytes(range(250)) * 8))
    await settled()
    assert len(sent.data()) == WINDOW
    sent.free.clear()
    stream.credited(400)
    await settled()
    assert len(sent.data()) == WINDOW
    sent.free.set()
    stream.credited(600)
    await asyncio.wait_for(writing, 5)
    assert sent.data() == bytes(range(250)) * 8


async def test_streams_that_wait_for_the_pipe_send_a_frame_in_turn(sent):
    turn = asyncio.Lock()
    sent.free.clear()
    writing = []
    for number in range(3):
        one = ServedStream(2 * number, {}, sent, turn, may_send=10, may_receive=10)
        await one.accept()
        writing.append((one, asyncio.create_task(one.write(bytes([65 + number]) * 20))))
    await settled()
    sent.free.set()
    await settled()
    for one, _ in writing:
        one.credited(10)
    await asyncio.gather(*(task for _, task in writing))
    assert sent.data() == b"A" * 10 + b"B" * 10 + b"C" * 10 + b"A" * 10 + b"B" * 10 + b"C" * 10


async def test_closing_is_in_order_only_after_the_end_was_told(sent):
    outcomes = []
    for end in (False, True):
        stream = ServedStream(2, {}, sent, asyncio.Lock(), may_send=WINDOW, may_receive=WINDOW)
        await stream.accept()
        if end:
            await stream.write_eof()
        stream.close()
        outcomes.append(json.loads(sent.frames[-1][1]))
    assert outcomes == [{"error": "ECONNRESET"}, {}]


@pytest.mark.parametrize("how", ["lost", "abort"])
async def test_whoever_reads_or_writes_hears_that_it_is_over(stream, how):
    await stream.accept()
    await stream.write(b"x" * WINDOW)
    waiting = [asyncio.create_task(stream.read(1)), asyncio.create_task(stream.write(b"more"))]
    await settled()
    if how == "lost":
        stream.lost("the program in the box broke it off")
    else:
        stream.abort()
    for task in waiting:
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(task, 5)


async def test_what_had_come_before_a_reset_is_not_taken_for_the_whole(stream):
    await stream.accept()
    stream.received(memoryview(b"a part"))
    stream.lost("the program in the box broke it off")
    with pytest.raises(ConnectionResetError):
        await stream.read(100)


async def test_a_cancelled_read_loses_nothing(stream):
    await stream.accept()
    reading = asyncio.create_task(stream.read(10))
    await settled()
    reading.cancel()
    stream.received(memoryview(b"abc"))
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await stream.read(10) == b"abc"


async def test_a_connection_that_is_gone_cannot_be_accepted(stream):
    stream.lost("the program in the box broke it off")
    with pytest.raises(ConnectionResetError):
        await stream.accept()


async def test_bytes_before_accept_or_after_the_end_are_a_mistake_of_the_host(stream):
    with pytest.raises(RuntimeError):
        await stream.write(b"x")
    await stream.accept()
    await stream.write_eof()
    with pytest.raises(RuntimeError):
        await stream.write(b"x")


async def test_whoever_waits_hears_that_the_program_is_gone(stream):
    waiting = asyncio.create_task(stream.gone())
    await settled()
    assert not waiting.done()
    stream.lost("the program in the box broke it off")
    await asyncio.wait_for(waiting, 5)
    await stream.gone()
