"""A guest that lies, floods, falls silent or dies does no harm to the host."""

import asyncio
import resource
import struct

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import (
    BoxFileError,
    KaguraError,
    SandboxDied,
    SandboxProtocolError,
    SandboxUnavailable,
)
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox import channel as channel_module, files as files_module, streams
from kagura_kernel.sandbox.backend import GuestStream, Listener
from kagura_kernel.sandbox.guest import frames
from tests.support.guests import scripted_guest

NO_LIMITS = CommandLimits(None, None)
SLEEP = Command(("sleep", "60"), limits=NO_LIMITS)


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload), kind, stream) + payload


def credit(amount: int) -> bytes:
    return frame(frames.CREDIT, 1, struct.pack(">I", amount))


GARBAGE = {
    "unknown type": frame(99, 1),
    "type zero": frame(0, 1),
    "data too large": struct.pack(">IBI", frames.MAX_DATA + 1, frames.DATA, 1),
    "control too large": struct.pack(">IBI", frames.MAX_CONTROL + 1, frames.RESULT, 1),
    "four gigabytes": struct.pack(">IBI", 2**32 - 1, frames.DATA, 1),
    "a stream nobody opened": frame(frames.DATA, 7, b"x"),
    "a result for a stream nobody opened": frame(frames.RESULT, 2**32 - 1, b"{}"),
    "stream zero": frame(frames.DATA, 0, b"x"),
    "a second hello": frame(frames.HELLO, 0, b'{"version": 1}'),
    "a hello on a stream": frame(frames.HELLO, 1, b'{"version": 1}'),
    "an empty data frame": frame(frames.DATA, 1),
    "end of data": frame(frames.EOF, 1),
    "a cancel": frame(frames.CANCEL, 1, b"{}"),
    "an open of the host's stream": frame(frames.OPEN, 1, b"{}"),
    "data for a stream it never opened": frame(frames.DATA, 2, b"x"),
    "an open that is no JSON": frame(frames.OPEN, 2, b"\xff"),
    "credit for nothing sent": credit(1),
    "credit of nothing": credit(0),
    "all the credit there is": credit(2**32 - 1),
    "a credit of three bytes": frame(frames.CREDIT, 1, b"abc"),
    "a result that is no JSON": frame(frames.RESULT, 1, b"{"),
    "a result that is no text": frame(frames.RESULT, 1, b"\xff\xfe"),
    "a result that is a list": frame(frames.RESULT, 1, b"[]"),
    "a result without a code": frame(frames.RESULT, 1, b"{}"),
    "an impossible code": frame(frames.RESULT, 1, b'{"exit": 256}'),
    "a code that is true": frame(frames.RESULT, 1, b'{"exit": true}'),
    "a code that is a text": frame(frames.RESULT, 1, b'{"exit": "0"}'),
    "an endless number": frame(frames.RESULT, 1, b'{"exit": ' + b"9" * 60_000 + b"}"),
    "an impossible signal": frame(frames.RESULT, 1, b'{"exit": 1, "signal": 1000}'),
    "an unknown reason": frame(frames.RESULT, 1, b'{"exit": 1, "why": "because"}'),
    "depth": frame(frames.RESULT, 1, b"[" * 60_000),
    "deep objects": frame(frames.RESULT, 1, b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    "a shell": b"bash: python3: command not found\n",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_closes_the_box_and_ends_whoever_waits(garbage):
    async with scripted_guest() as (channel, guest):
        running = asyncio.create_task(channel.run(SLEEP))
        await guest.opened()
        await guest.send(garbage)
        with pytest.raises(SandboxProtocolError) as caught:
            await asyncio.wait_for(running, 60)
        assert caught.value.box_id == "box-scripted"
        assert channel.closed
        assert "protocol" in await channel.wait_closed()
        with pytest.raises(SandboxProtocolError):
            await channel.run(SLEEP)


async def test_a_guest_that_prints_something_else_is_quoted():
    async with scripted_guest(greet=False) as (channel, guest):
        await guest.send(b"python3: error while loading shared libraries\n")
        with pytest.raises(SandboxUnavailable, match="error while loading shared libraries"):
            await channel.hello(60)
        assert channel.closed


@pytest.mark.parametrize("sent", [b"", struct.pack(">IBI", 100, frames.HELLO, 0) + b"half"], ids=["nothing", "half"])
async def test_a_guest_that_never_says_hello_is_given_up(sent):
    async with scripted_guest(greet=False) as (channel, guest):
        await guest.send(sent)
        with pytest.raises(SandboxUnavailable, match="nothing came for"):
            await channel.hello(0.1)
        assert channel.closed


@pytest.mark.parametrize(
    "first", [frame(frames.RESULT, 1, b"{}"), frame(frames.HELLO, 0, b'{"version": 99}'), frame(frames.HELLO, 0, b"[]")]
)
async def test_anything_but_the_right_hello_is_no_start(first):
    async with scripted_guest(greet=False) as (channel, guest):
        await guest.send(first)
        with pytest.raises(SandboxUnavailable):
            await channel.hello(60)


async def test_half_a_frame_and_then_silence_ends_at_the_time_limit(monkeypatch):
    monkeypatch.setattr(channel_module, "STOP_SECONDS", 0.2)
    async with scripted_guest() as (channel, guest):
        running = asyncio.create_task(channel.run(Command(("true",), limits=CommandLimits(0.1, None))))
        await guest.opened()
        await guest.send(frame(frames.DATA, 1, b"x" * 100)[:-1])
        with pytest.raises(SandboxProtocolError, match="did not stop"):
            await asyncio.wait_for(running, 60)


async def test_a_guest_that_does_not_stop_a_silent_command_is_closed(monkeypatch):
    monkeypatch.setattr(channel_module, "STOP_SECONDS", 0.2)
    async with scripted_guest() as (channel, guest):
        running = asyncio.create_task(channel.run(Command(("true",), limits=CommandLimits(None, 1.0))))
        await guest.opened()
        # For longer than silence may last, and never nearly so long between two words.
        for _ in range(25):
            await guest.frame(frames.DATA, 1, b"still here")
            await asyncio.sleep(0.1)
        assert not running.done()
        with pytest.raises(SandboxProtocolError, match="did not stop"):
            await asyncio.wait_for(running, 60)


async def test_a_command_that_ends_by_itself_when_its_limit_is_reached_has_ended():
    async with scripted_guest() as (channel, guest):
        running = asyncio.create_task(channel.run(Command(("true",), limits=CommandLimits(0.1, None))))
        await guest.opened()
        assert (await guest.receive())[0] == frames.CANCEL
        await guest.say(frames.RESULT, 1, {"exit": 3})
        assert (await asyncio.wait_for(running, 60)).exit_code == 3


async def test_a_flood_fills_no_memory_and_the_loop_goes_on():
    flood = frame(frames.DATA, 1, b"x" * frames.MAX_DATA) * 40
    tiny = frame(frames.DATA, 1, b"x") * 100_000
    async with scripted_guest() as (channel, guest):
        running = asyncio.create_task(channel.run(SLEEP))
        await guest.opened()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for piece in (flood, flood, tiny, flood, tiny):
            await asyncio.wait_for(guest.send(piece), 60)
        assert not running.done()
        await guest.say(frames.RESULT, 1, {"exit": 0})
        result = await asyncio.wait_for(running, 60)
        assert result.stdout.total == 3 * 40 * frames.MAX_DATA + 200_000
        assert len(result.stdout.data) <= SLEEP.keep_bytes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


async def test_more_data_than_it_has_credit_for_closes_the_box(monkeypatch):
    monkeypatch.setattr(streams.HostStream, "_owe", lambda *_: None)  # a reader that is slow to give credit back
    async with scripted_guest() as (channel, guest):
        running = asyncio.create_task(channel.run(SLEEP))
        await guest.opened()
        sending = asyncio.create_task(guest.send(frame(frames.DATA, 1, b"x" * frames.MAX_DATA) * 5))
        with pytest.raises(SandboxProtocolError, match="credit"):
            await asyncio.wait_for(running, 60)
        await sending


async def test_a_guest_that_never_reads_neither_blocks_nor_fills_the_host(monkeypatch):
    monkeypatch.setattr(channel_module, "STOP_SECONDS", 0.3)
    async with scripted_guest() as (channel, _guest):
        commands = [shell_command("cat", stdin=b"x" * 50_000_000, limits=NO_LIMITS) for _ in range(8)]
        running = [asyncio.create_task(channel.run(command)) for command in commands]
        for _ in range(10):
            await asyncio.wait_for(asyncio.sleep(0.01), 60)
        assert channel._pipe.backlog <= 8 * (frames.WINDOW + 10_000)
        for task in running:
            task.cancel()
        done, pending = await asyncio.wait(running, timeout=60)
        assert not pending
        assert all(task.cancelled() or isinstance(task.exception(), KaguraError) for task in done)
        assert channel.closed


async def test_a_command_that_the_guest_does_not_stop_takes_the_box_with_it(monkeypatch):
    monkeypatch.setattr(channel_module, "STOP_SECONDS", 0.2)
    async with scripted_guest() as (channel, guest):
        running = asyncio.create_task(channel.run(SLEEP))
        await guest.opened()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 60)
        assert channel.closed


async def test_a_second_cancel_does_not_wait_and_the_stop_goes_on(monkeypatch):
    monkeypatch.setattr(channel_module, "STOP_SECONDS", 3.0)
    async with scripted_guest() as (channel, guest):
        running = asyncio.create_task(channel.run(SLEEP))
        await guest.opened()
        running.cancel()
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not channel.closed
        assert "did not stop" in await asyncio.wait_for(channel.wait_closed(), 60)


async def test_a_file_operation_that_is_never_answered_ends(monkeypatch):
    monkeypatch.setattr(files_module, "SILENCE", 0.2)
    async with scripted_guest() as (channel, guest):
        with pytest.raises(SandboxProtocolError):
            await asyncio.wait_for(channel.files.stat("x"), 60)
        del guest


async def test_a_guest_that_dies_is_noticed_with_its_reason():
    async def explain() -> str:
        return "the container was out of memory"

    async with scripted_guest(explain=explain) as (channel, guest):
        running = asyncio.create_task(channel.run(SLEEP))
        await guest.opened()
        guest.die()
        with pytest.raises(SandboxDied, match="out of memory"):
            await asyncio.wait_for(running, 60)
        assert await channel.wait_closed() == "the container was out of memory"


async def test_a_reason_that_never_comes_or_fails_does_not_hide_the_death():
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    async def fail() -> str:
        raise OSError("no such container")

    for explain in (hang, fail):
        async with scripted_guest(explain=explain) as (channel, guest):
            running = asyncio.create_task(channel.run(SLEEP))
            await guest.opened()
            guest.die()
            with pytest.raises(SandboxDied, match="pipe"):
                await asyncio.wait_for(running, 60)


LIES = {
    "no JSON": b"nonsense\n",
    "a number": b"5\n",
    "outside": b'{"path": "../../etc/passwd", "status": "added", "kind": "file", "size": 1, "mode": 420}\n',
    "absolute": b'{"path": "/etc/passwd", "status": "deleted"}\n',
    "null byte": b'{"path": "a\\u0000b", "status": "deleted"}\n',
    "no path": b'{"status": "deleted"}\n',
    "unknown status": b'{"path": "a", "status": "renamed"}\n',
    "a device": b'{"path": "a", "status": "added", "kind": "device", "size": 1, "mode": 420}\n',
    "a negative size": b'{"path": "a", "status": "added", "kind": "file", "size": -1, "mode": 420}\n',
    "an impossible mode": b'{"path": "a", "status": "added", "kind": "file", "size": 1, "mode": 99999}\n',
    "depth": b"[" * 60_000 + b"\n",
    "a long line": b'"' + b"x" * 100_000 + b'"\n',
    "half a line": b'{"path": "a", "status": "del',
    "nothing, very often": b"\n" * (frames.MAX_ENTRIES + 1),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_lies_about_changes_close_the_box(lie):
    async with scripted_guest() as (channel, guest):
        asked = asyncio.create_task(channel.files.changes())
        stream, _ = await guest.opened()
        await guest.frame(frames.DATA, stream, lie)
        await guest.say(frames.RESULT, stream, {})
        with pytest.raises(SandboxProtocolError):
            await asyncio.wait_for(asked, 60)


async def test_a_list_without_end_is_cut_off():
    async with scripted_guest() as (channel, guest):
        asked = asyncio.create_task(channel.files.read("x", limit=10))
        stream, _ = await guest.opened()
        await guest.frame(frames.DATA, stream, b"x" * 11)
        kind, told, _ = await guest.receive()
        assert (kind, told) == (frames.CANCEL, stream)
        await guest.frame(frames.DATA, stream, b"what was under way")
        await guest.say(frames.RESULT, stream, {"error": "ECANCELED", "text": "called off"})
        with pytest.raises(BoxFileError) as caught:
            await asyncio.wait_for(asked, 60)
        assert caught.value.reason == "EFBIG"
        assert not channel.closed


@pytest.mark.parametrize("error", ["lower", 5, "E" * 100, "EIO\n; rm -rf"])
async def test_a_file_error_must_look_like_one(error):
    async with scripted_guest() as (channel, guest):
        asked = asyncio.create_task(channel.files.stat("x"))
        stream, _ = await guest.opened()
        await guest.say(frames.RESULT, stream, {"error": error, "text": "x"})
        with pytest.raises(SandboxProtocolError):
            await asyncio.wait_for(asked, 60)


async def ignore(stream: GuestStream) -> None:
    await stream.accept()


some_frames = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from([0, 1, 2, 3, 4, 2**32 - 1]),
        st.one_of(
            st.binary(max_size=64),
            st.sampled_from(
                [
                    b"{}",
                    b'{"exit": 0}',
                    b'{"error": "EIO", "text": "x"}',
                    b'{"version": 1}',
                    b"\0\0\0\1",
                    b'{"port": 1}',
                ]
            ),
        ),
    ),
    max_size=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=some_frames, tail=st.binary(max_size=32))
def test_no_sequence_of_frames_does_more_than_end_what_waits(sent, tail):
    async def play() -> None:
        async with scripted_guest() as (channel, guest):
            waiting = [
                asyncio.create_task(channel.run(SLEEP)),
                asyncio.create_task(channel.files.read("x")),
                asyncio.create_task(channel.listen(Listener(0), ignore)),
            ]
            await guest.opened()
            for kind, stream, payload in sent:
                await guest.frame(kind, stream, payload)
            await guest.send(tail)
            guest.die()
            done, pending = await asyncio.wait(waiting, timeout=60)
            assert not pending
            for task in done:
                assert task.exception() is None or isinstance(task.exception(), KaguraError)
            await asyncio.wait_for(channel.wait_closed(), 60)

    asyncio.run(play())
