"""A guest that lies about connections, or floods with them, does no harm to the host."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from kagura_kernel.domain.errors import SandboxProtocolError, SandboxUnavailable
from kagura_kernel.sandbox import channel as channel_module, listeners
from kagura_kernel.sandbox.backend import GuestStream, Listener
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.guest import frames
from tests.support.guests import ScriptedGuest, scripted_guest

TARGET = {"host": "a.example", "port": 443}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a condition of any kind
            await asyncio.sleep(0.01)


@dataclass
class Host:
    """A channel with one listener that a scripted guest has accepted."""

    channel: BoxChannel
    guest: ScriptedGuest
    asked: asyncio.Task[int]  # What listening gives or raises
    listening: int = 0  # The id of the listener's stream
    # Streams that came to be served, none of which anybody reads
    served: list[GuestStream] = field(default_factory=list)
    leave: list[asyncio.Event] = field(default_factory=list)  # For each of them, ends it when it is set
    over: int = 0  # How many are served no more

    async def open(self, stream: int, **other: object) -> None:
        """The guest opens a connection, with these fields in place of the right ones."""
        right = {"kind": frames.CONNECTION, "listener": self.listening, "credit": frames.WINDOW, **TARGET}
        await self.guest.say(frames.OPEN, stream, {**right, **other})

    async def opened(self, stream: int) -> None:
        """The guest opens a connection and has it accepted."""
        await self.open(stream)
        assert (await self.guest.receive())[:2] == (frames.ACCEPT, stream)

    async def answer(self) -> tuple[int, int, dict[str, object]]:
        """The next control frame of the host's."""
        kind, stream, payload = await asyncio.wait_for(self.guest.receive(), 20)
        return kind, stream, json.loads(payload)


@asynccontextmanager
async def host(*, accept: bool = True, port: int = 3179) -> AsyncIterator[Host]:
    """A listener for a proxy, whose connections are accepted at once (or not at all) and never read."""
    async with scripted_guest() as (channel, guest):
        found: Host

        async def serve(stream: GuestStream) -> None:
            found.served.append(stream)
            found.leave.append(leave := asyncio.Event())
            try:
                if accept:
                    await stream.accept()
                await leave.wait()
            finally:
                found.over += 1

        found = Host(channel, guest, asyncio.create_task(channel.listen(Listener(port, "proxy", "x"), serve)))
        found.listening, request = await guest.opened()
        assert request == {"kind": "listen", "port": port, "front": "proxy"}
        await guest.say(frames.ACCEPT, found.listening, {"port": 3179})
        if accept:
            assert await found.asked == 3179
        yield found
        found.asked.cancel()


WRONG = {
    "no host": {"host": None},
    "an empty host": {"host": ""},
    "a host that is a number": {"host": 5},
    "a host without end": {"host": "a" * 5000},
    "a port that is a text": {"port": "443"},
    "a port that is true": {"port": True},
    "a negative port": {"port": -1},
    "an impossible port": {"port": 65536},
    "no credit": {"credit": None},
    "a credit of nothing": {"credit": 0},
    "more credit than any": {"credit": frames.WINDOW + 1},
    "credit that is a fraction": {"credit": 1.5},
    "a listener that is a list": {"listener": [3]},
    "a negative listener": {"listener": -1},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
async def test_a_connection_that_says_nonsense_closes_the_box(wrong):
    async with host() as found:
        await found.open(2, **wrong)
        assert "broke the protocol" in await asyncio.wait_for(found.channel.wait_closed(), 20)
        assert found.served == []


LATER = {
    "more data than it had credit for": [(frames.DATA, b"x" * frames.MAX_DATA)] * 5,
    "an empty data frame": [(frames.DATA, b"")],
    "output of errors": [(frames.ERRDATA, b"x")],
    "data after the end of data": [(frames.EOF, b""), (frames.DATA, b"x")],
    "two ends of data": [(frames.EOF, b"")] * 2,
    "credit for nothing sent": [(frames.CREDIT, b"\0\0\0\1")],
    "credit of nothing": [(frames.CREDIT, b"\0\0\0\0")],
    "a credit of three bytes": [(frames.CREDIT, b"abc")],
    "a result": [(frames.RESULT, b"{}")],
    "an accept": [(frames.ACCEPT, b"{}")],
    "the same id again": [(frames.OPEN, b"{}")],
    "data after the end": [(frames.CANCEL, b"{}"), (frames.DATA, b"x")],
    "two ends": [(frames.CANCEL, b"{}")] * 2,
}


@pytest.mark.parametrize("sent", LATER.values(), ids=LATER.keys())
async def test_frames_that_a_connection_may_not_have_close_the_box(sent):
    async with host() as found:
        await found.opened(2)
        for kind, payload in sent:
            await found.guest.frame(kind, 2, payload)
        assert "broke the protocol" in await asyncio.wait_for(found.channel.wait_closed(), 20)
        # Who served it was told, and is gone before the channel is closed.
        await found.channel.close()
        assert found.over == 1


@pytest.mark.parametrize("sent", [(frames.DATA, b"x"), (frames.EOF, b"")], ids=["data", "end of data"])
async def test_nothing_may_come_before_a_connection_is_accepted(sent):
    async with host(accept=False) as found:
        await found.open(2)
        await until(lambda: len(found.served) == 1)
        await found.guest.frame(sent[0], 2, sent[1])
        assert "broke the protocol" in await asyncio.wait_for(found.channel.wait_closed(), 20)


async def test_ids_only_rise():
    async with host() as found:
        await found.opened(6)
        await found.open(4)
        assert "out of order" in await asyncio.wait_for(found.channel.wait_closed(), 20)


ANSWERS = {
    "another port": {"port": 3180},
    "no port": {},
    "a port that is a text": {"port": "3179"},
    "a port that is true": {"port": True},
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_listener_that_is_not_what_was_asked_for_closes_the_box(answer):
    async with scripted_guest() as (channel, guest):
        asked = asyncio.create_task(channel.listen(Listener(3179), _never))
        stream, _ = await guest.opened()
        await guest.say(frames.ACCEPT, stream, answer)
        with pytest.raises(SandboxProtocolError):
            await asyncio.wait_for(asked, 20)


AFTERWARDS = {
    "a second accept": (frames.ACCEPT, b'{"port": 3179}'),
    "data": (frames.DATA, b"x"),
    "the end of a listener": (frames.RESULT, b'{"error": "EIO", "text": "x"}'),
}


@pytest.mark.parametrize("sent", AFTERWARDS.values(), ids=AFTERWARDS.keys())
async def test_a_listener_lasts_and_says_nothing_more(sent):
    async with host() as found:
        await found.guest.frame(sent[0], found.listening, sent[1])
        assert "broke the protocol" in await asyncio.wait_for(found.channel.wait_closed(), 20)


async def test_an_accept_for_a_command_closes_the_box():
    async with scripted_guest() as (channel, guest):
        reading = asyncio.create_task(channel.files.read("x"))
        stream, _ = await guest.opened()
        await guest.say(frames.ACCEPT, stream, {"port": 3179})
        with pytest.raises(SandboxProtocolError):
            await asyncio.wait_for(reading, 20)


async def test_a_guest_that_cannot_listen_is_quoted_in_one_printable_line():
    async with scripted_guest() as (channel, guest):
        asked = asyncio.create_task(channel.listen(Listener(3179), _never))
        stream, _ = await guest.opened()
        await guest.say(frames.RESULT, stream, {"error": "EADDRINUSE", "text": "taken\n\x1b[2J" + "x" * 1000})
        with pytest.raises(SandboxUnavailable, match=r"cannot listen on port 3179: taken\?\?\[2Jx") as caught:
            await asyncio.wait_for(asked, 20)
        assert len(str(caught.value)) < 400
        assert not channel.closed


async def test_a_guest_that_does_not_answer_is_closed(monkeypatch):
    monkeypatch.setattr(listeners, "ANSWER_SECONDS", 0.1)
    async with scripted_guest() as (channel, guest):
        with pytest.raises(SandboxProtocolError):
            await asyncio.wait_for(channel.listen(Listener(3179), _never), 20)
        del guest


async def test_a_listener_that_is_called_off_while_it_opens_is_taken_back():
    async with scripted_guest() as (channel, guest):
        asked = asyncio.create_task(channel.listen(Listener(3179), _never))
        stream, _ = await guest.opened()
        asked.cancel()
        assert (await guest.receive())[:2] == (frames.CANCEL, stream)
        await guest.say(frames.ACCEPT, stream, {"port": 3179})
        await guest.say(frames.RESULT, stream, {})
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asked, 20)
        assert not channel.closed


async def test_a_stream_that_nobody_serves_is_refused_and_over():
    async with host() as found:
        for number, other in enumerate(({"kind": "call"}, {"listener": 99}, {"kind": None}), 1):
            stream = 2 * number
            await found.open(stream, **other)
            kind, told, refusal = await found.answer()
            assert (kind, told, refusal["status"]) == (frames.RESULT, stream, 503)
            await found.guest.say(frames.CANCEL, stream, {})
        assert not found.channel.closed
        await found.guest.frame(frames.DATA, 2, b"x")
        assert "not open" in await asyncio.wait_for(found.channel.wait_closed(), 20)


async def test_a_guest_that_opens_streams_without_end_is_closed():
    async with scripted_guest() as (channel, guest):
        flood = b"".join(frames.HEADER.pack(2, frames.OPEN, stream) + b"{}" for stream in range(2, 20_000, 2))
        sending = asyncio.create_task(guest.send(flood))
        assert "one stream after another" in await asyncio.wait_for(channel.wait_closed(), 60)
        await sending


async def test_a_guest_that_lets_answers_pile_up_is_closed(monkeypatch):
    monkeypatch.setattr(channel_module, "MAX_BACKLOG", 10_000)
    monkeypatch.setattr(listeners, "MAX_UNSERVED", 10**9)
    async with scripted_guest() as (channel, guest):
        flood = b"".join(frames.HEADER.pack(2, frames.OPEN, stream) + b"{}" for stream in range(2, 100_000, 2))
        sending = asyncio.create_task(guest.send(flood))
        assert "does not read" in await asyncio.wait_for(channel.wait_closed(), 60)
        await sending


async def test_connections_beyond_the_most_are_refused_and_those_before_go_on(monkeypatch):
    monkeypatch.setattr(frames, "MAX_CONNECTIONS", 4)
    async with host() as found:
        for number in range(1, 5):
            await found.opened(2 * number)
        await found.open(10)
        kind, stream, refusal = await found.answer()
        assert (kind, stream, refusal["text"]) == (frames.RESULT, 10, "there are too many connections")
        assert len(found.served) == 4
        # One that only the guest has let go of is not over: the host has to let go as well.
        await found.guest.say(frames.CANCEL, 2, {})
        await found.open(12)
        assert (await found.answer())[:2] == (frames.RESULT, 12)
        found.leave[0].set()
        assert (await found.answer())[:2] == (frames.RESULT, 2)
        await found.opened(14)
        assert not found.channel.closed


async def test_what_nobody_reads_is_at_most_a_window_however_small_the_frames():
    async with host() as found:
        await found.opened(2)
        await found.guest.send((frames.HEADER.pack(1, frames.DATA, 2) + b"x") * frames.WINDOW)
        got = 0
        while got < frames.WINDOW:
            got += len(await asyncio.wait_for(found.served[0].read(frames.WINDOW), 60))
        assert got == frames.WINDOW
        assert not found.channel.closed


async def test_many_connections_may_have_less_each():
    assert sum(frames.window(others) for others in range(frames.MAX_CONNECTIONS)) < 128 * 2**20
    async with host() as found:
        windows = []
        for number in range(1, 200):
            await found.open(2 * number)
            windows.append((await found.answer())[2]["credit"])
    assert windows == [frames.window(others) for others in range(199)]


async def test_data_under_way_when_the_host_lets_go_is_dropped_until_the_guest_does():
    async with host() as found:
        await found.opened(2)
        found.leave[0].set()
        assert (await found.answer())[1:] == (2, {"error": "ECONNRESET"})
        await found.guest.frame(frames.DATA, 2, b"x" * 1000)
        await found.guest.frame(frames.EOF, 2)
        await found.guest.say(frames.CANCEL, 2, {})
        await found.opened(4)
        assert not found.channel.closed


async def test_a_box_that_dies_ends_whoever_serves_its_connections():
    async with host() as found:
        await found.opened(2)
        await found.opened(4)
        found.guest.die()
        await found.channel.wait_closed()
        await until(lambda: found.over == 2)
        with pytest.raises(OSError, match="gone"):
            await found.served[0].read(1)
        with pytest.raises(OSError, match="gone"):
            await found.served[0].write(b"x")
        found.served[0].abort()
        found.served[0].close()


async def _never(stream: GuestStream) -> None:
    raise AssertionError(stream.request)
