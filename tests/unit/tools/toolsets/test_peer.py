"""JSON-RPC with a server that is not believed."""

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.tools.toolsets.foreign_tools import Breach, Lines, ToolsetLimits
from kagura_kernel.tools.toolsets.server import Failed, Gone, Peer, Unanswered

SAID = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "method", "params", "result", "error", "code", "message"]), inner)
    ),
    max_leaves=10,
)


class Talk:
    """A peer, what it sent, and what it was told."""

    def __init__(self, clock: FakeClock | None = None, **limits: Any) -> None:
        self.sent: list[Any] = []
        self.told: list[str] = []
        self.peer = Peer(
            Lines(10_000),
            self._send,
            told=lambda method, _: self.told.append(method),
            asked=self._asked,
            limits=ToolsetLimits(**limits),
            clock=clock or FakeClock(),
        )

    async def _send(self, data: bytes) -> None:
        self.sent.append(json.loads(data))

    def _asked(self, method: str, _params: Any) -> Any:
        if method == "ping":
            return {}
        raise Unanswered("no")

    async def hear(self, *messages: Any) -> None:
        await self.peer.heard(b"".join(json.dumps(one).encode() + b"\n" for one in messages))

    def ask(self) -> asyncio.Task[Any]:
        return asyncio.create_task(self.peer.request(self.peer.number(), "m", {}))


async def test_answers_find_their_questions_in_any_order():
    talk = Talk()
    first, second, third = talk.ask(), talk.ask(), talk.ask()
    await asyncio.sleep(0)
    await talk.hear(
        {"id": 3, "error": {"code": -1, "message": "no\x1b"}}, {"id": 2, "result": "two"}, {"id": 1, "result": None}
    )
    assert await first is None
    assert await second == "two"
    with pytest.raises(Failed, match=r"^no\?$"):
        await third
    assert [one["id"] for one in talk.sent] == [1, 2, 3]


async def test_questions_of_the_server_are_answered_beside():
    talk = Talk()
    await talk.hear([{"id": "a", "method": "ping"}, {"id": 7, "method": "other"}], {"method": "note"})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert talk.sent == [
        {"jsonrpc": "2.0", "id": "a", "result": {}},
        {"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "no"}},
    ]
    assert talk.told == ["note"]


async def test_an_answer_to_what_was_given_up_is_passed_over_once():
    talk = Talk()
    asked = talk.ask()
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait({asked})
    await talk.hear({"id": 1, "result": 1})
    with pytest.raises(Breach, match="twice"):
        await talk.hear({"id": 1, "result": 1})


async def test_whoever_waits_hears_that_it_is_over_and_so_does_whoever_comes_later():
    talk = Talk()
    asked = talk.ask()
    await asyncio.sleep(0)
    talk.peer.end("it left")
    talk.peer.end("it left again")
    for waiting in (asked, talk.ask()):
        with pytest.raises(Gone, match=r"^it left$"):
            await waiting


async def test_messages_come_at_a_bounded_pace():
    clock = FakeClock()
    talk = Talk(clock, rate=10.0, burst=20)
    await talk.hear(*[{"method": "n"}] * 20)
    with pytest.raises(Breach, match="more than 10 messages a second"):
        await talk.hear({"method": "n"}, {"method": "n"})
    talk = Talk(clock, rate=10.0, burst=20)
    for _ in range(100):
        await clock.advance(0.2)
        await talk.hear({"method": "n"}, {"method": "n"})


async def test_what_nobody_asked_for_is_counted_and_what_was_asked_for_is_not():
    talk = Talk(untold_bytes=1000, untold_rate=1.0)
    asked = talk.ask()
    await asyncio.sleep(0)
    await talk.hear({"id": 1, "result": "x" * 5000})
    assert len(await asked) == 5000
    with pytest.raises(Breach, match="more than anybody asked for"):
        await talk.hear({"method": "n", "params": "x" * 1000})


async def test_a_server_that_asks_and_reads_no_answer_is_told_apart():
    talk = Talk(questions=3)
    with pytest.raises(Breach, match="asks without end"):
        await talk.hear(*[{"id": number, "method": "ping"} for number in range(4)])


@given(st.lists(st.one_of(SAID.map(lambda said: json.dumps(said).encode()), st.binary(max_size=20)), max_size=6))
def test_whatever_a_server_sends_is_heard_or_a_breach(lines):
    async def hear() -> None:
        talk = Talk()
        asked = talk.ask()
        await asyncio.sleep(0)
        with contextlib.suppress(Breach):
            await talk.peer.heard(b"\n".join(lines) + b"\n")
        talk.peer.end("over")
        await asyncio.wait({asked})
        assert asked.done()

    asyncio.run(hear())
