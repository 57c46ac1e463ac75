"""The host's end of guest calls, with clients that do whatever they like: all over real sockets."""

import asyncio
import contextlib
import json
import struct
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.domain.events import Noted
from kagura_kernel.plugins.calls import CallLimits, Room
from kagura_kernel.plugins.guest_calls import GuestCalls
from kagura_kernel.sandbox.backend import Listener
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually
from tests.support.guest_stream import LoopbackListening
from tests.support.plugins import FakePlugin

LARGE = "x" * 300_000


def frame(message: Any) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def request(number: int, function: str = "echo", *arguments: Any, module: str = "words") -> bytes:
    return frame({"id": number, "module": module, "function": function, "arguments": list(arguments), "named": {}})


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> dict[str, Any]:
        (count,) = struct.unpack(">I", await self.reader.readexactly(4))
        return json.loads(await self.reader.readexactly(count))

    async def ask(self, number: int, function: str = "echo", *arguments: Any, module: str = "words") -> dict[str, Any]:
        await self.send(request(number, function, *arguments, module=module))
        return await self.answer()

    async def is_over(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), 30) == b""
        except ConnectionError:
            return True


@dataclass
class Gate:
    """A function that a test lets go."""

    opened: asyncio.Event = field(default_factory=asyncio.Event)
    inside: int = 0

    async def wait(self, value: Any = None) -> Any:
        self.inside += 1
        try:
            await self.opened.wait()
        finally:
            self.inside -= 1
        return value


@pytest.fixture
async def serve():
    """Serves a plugin with limits of the test's."""
    async with LoopbackListening() as listening:
        made = []
        clients = []

        async def start(**limits: Any) -> Any:
            gate, rows, failures = Gate(), [], []
            clock = limits.pop("clock", None)
            refuse = limits.pop("refuse", False)
            held = limits.pop("held", str)
            plugin = FakePlugin("one", {"words": {"echo": lambda v=None: v, "wait": gate.wait, "fail": lambda: 1 / 0}})

            def record(kind: type, **fields: Any) -> None:
                if refuse:
                    raise JournalUnwritable("here", "it is full")
                rows.append(SimpleNamespace(kind=kind, **fields))

            calls = GuestCalls([plugin], record, clock=clock, limits=CallLimits(**limits), held=held)
            port = await listening.listen(Listener(0), calls.serve, failures.append)
            made.append(calls)

            async def connect() -> Client:
                client = Client(*await asyncio.open_connection("127.0.0.1", port))
                clients.append(client)
                return client

            return SimpleNamespace(calls=calls, rows=rows, failures=failures, gate=gate, plugin=plugin, connect=connect)

        yield start
        for calls in made:
            await calls.close()
        for client in clients:
            client.writer.close()
            with contextlib.suppress(OSError):
                await client.writer.wait_closed()


async def test_answers_come_as_they_are_ready_each_with_its_id(serve):
    here = await serve()
    client = await here.connect()
    await client.send(request(1, "wait", "late") + request(2, "echo", "now") + request(3, "fail"))
    first, second = await client.answer(), await client.answer()
    here.gate.opened.set()
    assert sorted((first, second), key=lambda one: one["id"]) == [
        {"id": 2, "ok": True, "value": "now"},
        {
            "id": 3,
            "ok": False,
            "error": {"code": "ERR_PLUGIN_FAILED", "kind": "ZeroDivisionError", "message": "division by zero"},
        },
    ]
    assert await client.answer() == {"id": 1, "ok": True, "value": "late"}
    assert sorted((row.function, row.ok) for row in here.rows) == [("echo", True), ("fail", False), ("wait", True)]


async def test_while_something_holds_it_back_a_call_is_refused_and_written_down(serve):
    why = ["this run only plans"]
    here = await serve(held=lambda: "".join(why))
    client = await here.connect()
    assert (await client.ask(0, "echo", 1))["error"]["message"] == "echo was not called: this run only plans."
    why.clear()
    assert (await client.ask(0, "echo", 1))["value"] == 1
    assert [(row.function, row.ok) for row in here.rows] == [("echo", False), ("echo", True)]


async def test_an_id_may_be_used_again_when_its_call_is_over(serve):
    here = await serve()
    client = await here.connect()
    for value in range(3):
        assert (await client.ask(0, "echo", value))["value"] == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (struct.pack(">I", 0), "0 bytes"),
        (struct.pack(">I", 5 * 2**20), "5,242,880 bytes"),
        (struct.pack(">I", 2**32 - 1), "4,294,967,295 bytes"),
        (frame(b"no json"), "no JSON"),
        (frame(b"\xff\xfe{}"), "no JSON"),
        (frame(b'{"id": NaN}'), "NaN"),
        (frame(b'{"id": 1e999}'), "too large"),
        (frame(b"[" * 70 + b"]" * 70), "nested"),
        (frame(b"[" * 400_000), ""),
        (frame(b"[]"), "no request"),
        (frame({"id": 1, "module": "words", "function": "echo", "more": 1}), "no request"),
        (frame({"module": "words", "function": "echo"}), "id"),
        (frame({"id": True, "module": "words", "function": "echo"}), "id"),
        (frame({"id": -1, "module": "words", "function": "echo"}), "id"),
        (frame({"id": 1.0, "module": "words", "function": "echo"}), "id"),
        (frame({"id": 1, "module": 3, "function": "echo"}), "names no function"),
        (frame({"id": 1, "module": "words", "function": "echo", "arguments": {}}), "arguments"),
        (frame({"id": 1, "module": "words", "function": "echo", "named": []}), "arguments"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_is_no_request_ends_its_connection_with_a_word_and_no_other(serve, data, why):
    here = await serve()
    bad, good = await here.connect(), await here.connect()
    await bad.send(data)
    told = await bad.answer()
    assert (told["id"], told["ok"], told["error"]["code"]) == (None, False, "ERR_PLUGIN_CALL")
    assert why in told["error"]["message"]
    assert await bad.is_over()
    assert (await good.ask(1, "echo", 1))["ok"]
    assert here.plugin.calls == [("words", "echo", [1], {})]


async def test_an_id_that_is_under_way_breaks_the_connection_and_cuts_its_calls(serve):
    here = await serve()
    client = await here.connect()
    await client.send(request(1, "wait"))
    await eventually(lambda: here.gate.inside)
    await client.send(request(1, "echo"))
    assert await client.is_over()
    assert (here.gate.inside, here.plugin.cut) == (0, 1)


async def test_a_program_that_has_gone_has_its_calls_cut_and_written_down(serve):
    here = await serve()
    client = await here.connect()
    await client.send(request(1, "wait") + request(2, "wait"))
    await eventually(lambda: here.gate.inside == 2)
    client.writer.close()
    await eventually(lambda: here.plugin.cut == 2)
    assert [(row.ok, row.error_code) for row in here.rows] == [(False, "ERR_PLUGIN_CALL")] * 2


async def test_half_a_frame_is_waited_for_so_long_and_no_longer(serve):
    here = await serve(frame_seconds=0.1)
    for data in (b"\0", request(1)[:-3], request(1, "echo", LARGE)[:200_000]):
        client = await here.connect()
        await client.send(data)
        assert await client.is_over()
    assert here.plugin.calls == []


async def test_half_of_a_long_request_keeps_no_short_one_waiting(serve):
    here = await serve(room=2**20)
    halves = [await here.connect() for _ in range(8)]
    for client in halves:
        await client.send(request(1, "echo", LARGE)[:100_000])
    client = await here.connect()
    for number in range(20):
        assert (await client.ask(number, "echo", number))["value"] == number


async def test_long_requests_take_their_turns_in_the_room_that_there_is(serve):
    here = await serve(room=700_000)
    clients = [await here.connect() for _ in range(6)]
    answers = await asyncio.gather(*(client.ask(1, "echo", LARGE) for client in clients))
    assert all(answer["value"] == LARGE for answer in answers)


async def test_one_that_does_not_take_its_answers_is_cut_off_and_holds_up_nobody(serve):
    here = await serve(calls=4, calls_a_connection=2, answer_seconds=0.3)
    deaf = [await here.connect() for _ in range(3)]
    for client in deaf:
        client.reader._transport.pause_reading()
        for number in range(10):
            client.writer.write(request(number, "echo", "y" * 3_000_000))
    client = await here.connect()
    assert (await client.ask(1, "echo", 1))["value"] == 1
    # Their answers fill every buffer on the way; then their time is up.
    await eventually(lambda: len(here.calls._connections) == 1)
    assert (await client.ask(2, "echo", 2))["value"] == 2


async def test_so_many_calls_are_under_way_at_once_and_the_others_wait(serve):
    here = await serve(calls=5, calls_a_connection=3)
    clients = [await here.connect() for _ in range(2)]
    for client in clients:
        await client.send(b"".join(request(number, "wait", number) for number in range(10)))
    await eventually(lambda: here.gate.inside == 5)
    here.gate.opened.set()
    for client in clients:
        assert sorted([(await client.answer())["value"] for _ in range(10)]) == list(range(10))


async def test_an_idle_connection_makes_room_for_a_new_one(serve):
    here = await serve(connections=3)
    clients = [await here.connect() for _ in range(3)]
    for client in clients:
        assert (await client.ask(1))["ok"]
    assert (await clients[0].ask(2))["ok"]
    new = await here.connect()
    assert (await new.ask(1))["ok"]
    # The one that has been idle for longest had to go.
    assert await clients[1].is_over()
    assert (await clients[0].ask(3))["ok"]
    assert (await clients[2].ask(3))["ok"]


async def test_connections_beyond_those_at_work_are_refused(serve):
    here = await serve(connections=2)
    busy = [await here.connect() for _ in range(2)]
    for client in busy:
        await client.send(request(1, "wait", "done"))
    await eventually(lambda: here.gate.inside == 2)
    for _ in range(20):
        assert await (await here.connect()).is_over()
    here.gate.opened.set()
    assert [(await client.answer())["value"] for client in busy] == ["done", "done"]


async def test_what_there_is_not_is_refused_with_what_there_is(serve):
    here = await serve()
    client = await here.connect()
    told = await client.ask(1, "echo", module="word")
    assert told["error"]["message"] == "There is no module 'word'. Did you mean 'words'? Known: words."
    told = await client.ask(2, "ecko")
    assert "no function of words 'ecko'. Did you mean 'echo'? Known: echo, wait, fail." in told["error"]["message"]
    assert (await client.ask(3))["ok"]
    assert [(row.plugin, row.module, row.ok) for row in here.rows] == [
        ("", "word", False),
        ("one", "words", False),
        ("one", "words", True),
    ]


async def test_names_that_a_program_makes_up_are_recorded_as_one_word_and_only_so_many_of_them(serve):
    here = await serve(refusals=2)
    client = await here.connect()
    for number in range(5):
        assert not (await client.ask(number, "f\n", module="\x1b[31m" + "é" * 1000))["ok"]
    assert [row.kind.__name__ for row in here.rows] == ["PluginCalled", "PluginCalled", "Noted"]
    assert here.rows[0].module.startswith("\\x1b[31m\\xe9")
    assert here.rows[0].function == "f\\n"
    assert len(here.rows[0].module) <= 400
    assert here.rows[2].kind is Noted


async def test_an_answer_that_cannot_be_handed_over_is_an_error_of_its_call(serve):
    here = await serve(frame_bytes=2000)
    client = await here.connect()
    here.plugin._functions["words"]["echo"] = lambda _value: "z" * 3000
    told = await client.ask(1, "echo", 1)
    assert "cannot be handed over" in told["error"]["message"]
    here.plugin._functions["words"]["echo"] = lambda value: value
    assert (await client.ask(2, "echo", 2))["ok"]


async def test_a_run_has_so_many_calls(serve):
    here = await serve(total=2)
    client = await here.connect()
    assert [(await client.ask(number))["ok"] for number in range(4)] == [True, True, False, False]
    assert len(here.plugin.calls) == 2


async def test_calls_that_come_too_fast_wait_for_their_turn(serve):
    clock = FakeClock()
    here = await serve(rate=1.0, burst=2, clock=clock)
    client = await here.connect()
    for number in range(2):
        assert (await client.ask(number))["ok"]
    await client.send(request(3))
    await eventually(lambda: clock.sleepers)
    assert len(here.plugin.calls) == 2
    await clock.advance(1.0)
    assert (await client.answer())["ok"]


@pytest.mark.parametrize("value", ["x" * 80_000, [0] * 5000], ids=["long", "many values"])
async def test_what_is_long_or_holds_much_counts_as_several(serve, value):
    clock = FakeClock()
    here = await serve(rate=10.0, burst=12, clock=clock)
    client = await here.connect()
    assert (await client.ask(1, "echo", value))["ok"]
    # Its answer was as long as itself, and is counted as well.
    await client.send(request(2))
    await eventually(lambda: clock.sleepers)
    assert len(here.plugin.calls) == 1
    await clock.advance(10.0)
    assert (await client.answer())["ok"]


async def test_connections_that_come_too_fast_wait_for_their_turn(serve):
    clock = FakeClock()
    here = await serve(connection_rate=1.0, connection_burst=1, clock=clock)
    assert (await (await here.connect()).ask(1))["ok"]
    late = await here.connect()
    await late.send(request(2))
    await eventually(lambda: clock.sleepers)
    assert len(here.plugin.calls) == 1
    await clock.advance(1.0)
    assert (await late.answer())["ok"]


async def test_a_plugin_that_never_answers_is_given_up(serve):
    here = await serve(call_seconds=0.05)
    client = await here.connect()
    told = await client.ask(1, "wait")
    assert told["error"]["code"] == "ERR_PLUGIN_TIMEOUT"
    assert here.plugin.cut == 1


async def test_a_fault_of_the_host_is_one_calls_failure(serve, caplog):
    here = await serve()
    client = await here.connect()

    async def broken(*_: Any) -> Any:
        raise RuntimeError("a fault of ours, with details")

    here.plugin.call = broken
    told = await client.ask(1)
    assert told["error"] == {
        "code": "ERR_PLUGIN_CALL",
        "kind": "",
        "message": "The call failed outside of the plugin. The log of the kernel says why.",
    }
    assert "a fault of ours" in caplog.text
    assert here.failures == []


async def test_a_call_that_cannot_be_written_down_is_told_to_the_run_and_not_answered(serve):
    here = await serve(refuse=True)
    client = await here.connect()
    await client.send(request(1))
    assert await client.is_over()
    await eventually(lambda: here.failures)
    assert isinstance(here.failures[0], JournalUnwritable)


async def test_after_the_end_nothing_is_carried_out(serve):
    here = await serve()
    idle, busy = await here.connect(), await here.connect()
    assert (await idle.ask(1))["ok"]
    await busy.send(request(1, "wait"))
    await eventually(lambda: here.gate.inside)
    await here.calls.close()
    assert (here.gate.inside, here.plugin.cut) == (0, 1)
    assert await idle.is_over()
    assert await busy.is_over()
    assert await (await here.connect()).is_over()
    await here.calls.close()
    assert [row.ok for row in here.rows] == [True, False]


async def test_room_is_handed_out_in_order_and_given_back_by_those_who_leave():
    room = Room(10)
    assert await room.take(100) == 10
    first, second = asyncio.ensure_future(room.take(8)), asyncio.ensure_future(room.take(3))
    await asyncio.sleep(0)
    room.give(2)
    await asyncio.sleep(0)
    assert not first.done()
    # What is small waits as well, or what is large would wait for ever.
    assert not second.done()
    first.cancel()
    await asyncio.sleep(0)
    room.give(8)
    assert await second == 3
    assert await room.take(7) == 7


async def test_requests_that_never_come_to_their_end_keep_nobody_out(serve):
    here = await serve(connections=3)
    halves = [await here.connect() for _ in range(3)]
    for client in halves:
        await client.send(request(1)[:7])
    await eventually(lambda: all(one._buffer for one in here.calls._connections))
    client = await here.connect()
    assert (await client.ask(1))["ok"]
    assert await halves[0].is_over()
