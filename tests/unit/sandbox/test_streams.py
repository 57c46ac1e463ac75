import asyncio

import pytest

from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.streams import HostStream, WireError
from kagura_kernel.testing.patience import eventually


class Sent:
    """A sender that keeps what it was given."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []

    def send(self, kind: int, _stream: int, *parts: bytes) -> None:
        self.frames.append((kind, b"".join(bytes(part) for part in parts)))

    async def drained(self) -> None:
        return

    def size(self, kind: int) -> int:
        return sum(len(payload) for told, payload in self.frames if told == kind)


@pytest.fixture
async def made():
    sent = Sent()
    heard: list[bytes] = []
    return HostStream(1, sent, lambda _kind, payload: heard.append(bytes(payload))), sent, heard


async def test_no_more_is_sent_than_the_window_until_credit_comes(made):
    stream, sent, _ = made
    sending = asyncio.create_task(stream.send_all(b"x" * (frames.WINDOW + 1000)))
    await eventually(lambda: sent.size(frames.DATA) >= frames.WINDOW)
    stream.credited(600)
    await eventually(lambda: sent.size(frames.DATA) >= frames.WINDOW + 600)
    await asyncio.sleep(0.01)
    assert sent.size(frames.DATA) == frames.WINDOW + 600
    stream.credited(5000)
    await asyncio.wait_for(sending, 60)
    assert sent.size(frames.DATA) == frames.WINDOW + 1000
    assert max(len(payload) for _, payload in sent.frames) <= frames.MAX_DATA


async def test_credit_for_more_than_was_sent_is_refused(made):
    stream, _, _ = made
    stream.send_now(b"x" * 100)
    stream.credited(100)
    with pytest.raises(WireError):
        stream.credited(1)


async def test_what_was_taken_is_given_back_in_good_pieces(made):
    stream, sent, heard = made
    for _ in range((frames.WINDOW // 4) // 1000 + 1):
        stream.received(frames.DATA, memoryview(b"y" * 1000))
    assert len(heard) == (frames.WINDOW // 4) // 1000 + 1
    assert [frames.CREDIT_BODY.unpack(payload)[0] for kind, payload in sent.frames] == [len(heard) * 1000]


async def test_a_sender_is_let_go_when_the_stream_ends(made):
    stream, sent, _ = made
    sending = asyncio.create_task(stream.send_all(b"x" * (frames.WINDOW * 3)))
    await asyncio.sleep(0.01)
    stream.end({"exit": 0})
    await asyncio.wait_for(sending, 60)
    stream.send_eof()
    assert sent.frames[-1][0] == frames.DATA
    assert stream.result.result() == {"exit": 0}


async def test_the_first_word_counts(made):
    stream, _, _ = made
    stream.fail(LookupError("listener"))
    assert not stream.over.done()
    stream.end({"exit": 0})
    assert stream.over.done()
    with pytest.raises(LookupError):
        await stream.result
