"""The API of a sealed brain as programs in a box meet it: what passes, what it costs, and how it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.events import Event, ModelCalled
from kagura_kernel.membrane import model_api as model_access
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.egress.gate import Gate, SystemResolver
from kagura_kernel.membrane.model_api import MOST_AT_ONCE, Counting, ModelAccess, ModelApi
from kagura_kernel.membrane.model_usage import Counted
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.patience import eventually
from tests.support.model_script import BrokenStream, Refusal, Script, Silence, says
from tests.support.model_server import ModelServer

KEY = "sk-test-4f1d8c77b2e94c0a-never-real"
ASK = {"model": "m-1", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hello"}]}


@dataclass
class Rig:
    """A box, its way to a model, and what was noted of it."""

    access: ModelAccess
    server: ModelServer
    calls: list[ModelCalled] = field(default_factory=list)
    counted: list[Counted | None] = field(default_factory=list)
    problems: list[BaseException] = field(default_factory=list)
    refusal: str = ""

    async def ask(self, body: Any = None, *, path: str = "/v1/messages", method: str = "POST") -> tuple[int, bytes]:
        """Status and body of an answer; what there is of it when it breaks off."""
        reader, writer = await self.open(body, path=path, method=method)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            rest = b""
            try:
                while data := await reader.read(65536):
                    rest += data
            except ConnectionResetError:
                rest += b"(broken off)"
            return int(head.split()[1]), rest
        finally:
            writer.close()

    async def open(
        self, body: Any = None, *, path: str = "/v1/messages", method: str = "POST"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A request that was sent."""
        port = int(self.access.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        data = b"" if method != "POST" else body if isinstance(body, bytes) else json.dumps(body or ASK).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n"
        head += "content-type: application/json\r\nx-api-key: of somebody else\r\n"
        writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        return reader, writer


@asynccontextmanager
async def a_model(script: Script) -> AsyncIterator[Rig]:
    backend = FakeBackend()
    with ModelServer(script, key=KEY) as server:
        counted: list[Counted | None] = []

        def record(kind: type[Event], /, **fields: Any) -> object:
            event = kind(run_id="run-1", session_id="ses-1", at=SystemClock().now(), **fields)
            assert isinstance(event, ModelCalled)
            rig.calls.append(event)
            return event

        counting = Counting(counted.append, lambda: rig.refusal, lambda model: "not that one" if model == "x" else "")
        rig = Rig(
            ModelAccess(
                ModelApi(server.url, "x-api-key", Secret(KEY)),
                lambda policy: Gate(policy, SystemResolver()),
                record,
                counting,
                clock=SystemClock(),
            ),
            server,
            counted=counted,
        )
        try:
            await rig.access.open(await backend.start(BoxSpec()), rig.problems.append)
            yield rig
        finally:
            await rig.access.close()
            await backend.close()
    assert rig.problems == []


async def test_an_answer_streams_through_and_is_counted_when_it_is_over():
    async with a_model([says("Hello."), says("Again.")]) as rig:
        status, body = await rig.ask()
        assert status == 200
        assert b"event: message_start" in body
        assert b"event: message_stop" in body
        (counted,) = rig.counted
        assert counted is not None
        assert (counted.usage.input_tokens, counted.usage.output_tokens, counted.whole) == (1420, 40, True)
        status, body = await rig.ask({**ASK, "stream": False})
        assert b'"type": "message"' in body
    assert [counted.usage.output_tokens for counted in rig.counted if counted] == [40, 40]
    assert [(call.method, call.path, call.status) for call in rig.calls] == [("POST", "/v1/messages", 200)] * 2


async def test_a_model_that_may_not_be_asked_is_not_and_the_next_one_is():
    async with a_model([says("Hello.")]) as rig:
        status, body = await rig.ask({**ASK, "model": "x"})
        assert (status, b"not that one" in body) == (400, True)
        assert (await rig.ask())[0] == 200
    assert [call.status for call in rig.calls] == [400, 200]
    assert len(rig.counted) == 1


async def test_half_a_character_in_a_name_is_refused_like_any_other_name():
    async with a_model([says("Hello.")]) as rig:
        status, body = await rig.ask(b'{"model": "m-1", "\\ud800": 1}')
        assert (status, b"\\ud800" in body) == (400, True)
        assert (await rig.ask())[0] == 200
    assert rig.problems == []


async def test_pieces_come_as_they_are_written():
    async with a_model([says("one two three " * 20, delay=0.02)]) as rig:
        reader, writer = await rig.open()
        first = await reader.readuntil(b"content_block_start")
        assert b"message_start" in first
        assert rig.counted == [], "it has begun to come and is not over"
        await reader.read()
        writer.close()


async def test_an_answer_that_breaks_off_is_counted_as_far_as_it_told():
    async with a_model([BrokenStream(says("Hello. " * 30))]) as rig:
        status, body = await rig.ask()
        assert (status, b"message_stop" in body) == (200, False)
        await eventually(lambda: rig.counted)
    (counted,) = rig.counted
    assert counted is not None
    assert (counted.usage.input_tokens, counted.whole) == (1420, False)


async def test_a_refusal_of_the_service_costs_nothing_and_does_not_show_the_key():
    async with a_model([Refusal(429, retry_after=3, message=f"the key {KEY} had enough")]) as rig:
        status, body = await rig.ask()
    assert status == 429
    assert KEY.encode() not in body
    assert b"the key ****" in body
    assert rig.counted == []


async def test_nothing_is_asked_once_the_books_say_no():
    async with a_model([says("never")]) as rig:
        rig.refusal = "The budget is spent."
        status, body = await rig.ask()
        assert (status, rig.server.requests) == (400, [])
        assert b"The budget is spent." in body
        # To look costs nothing.
        assert (await rig.ask(path="/v1/models", method="GET"))[0] == 200
    assert rig.counted == []
    assert "The budget is spent." in rig.calls[0].why


async def test_only_so_many_answers_are_under_way_at_once():
    async with a_model(lambda _request: Silence()) as rig:
        waiting = [await rig.open() for _ in range(MOST_AT_ONCE)]
        await eventually(lambda: len(rig.server.turns) == MOST_AT_ONCE)
        status, body = await rig.ask()
        assert status == 429
        assert b"under way already" in body
        # Who gives up makes room.
        for _, writer in waiting:
            writer.transport.abort()
        begun = len(rig.server.turns)

        async def asked() -> bool:
            _, writer = await rig.open()
            try:
                await eventually(lambda: len(rig.server.turns) > begun or rig.calls[-1].status == 429)
                return len(rig.server.turns) > begun
            finally:
                writer.transport.abort()

        await eventually(asked)


async def test_a_body_without_end_is_not_held(monkeypatch):
    monkeypatch.setattr(model_access._Request, "longest", 100_000)
    async with a_model([says("never")]) as rig:
        long = {**ASK, "system": "x" * 200_000}
        status, body = await rig.ask(long)
        assert (status, rig.server.requests) == (413, [])
        assert b"longer than 100,000 bytes" in body


async def test_closing_cuts_what_is_under_way_and_answers_no_more():
    async with a_model([Silence(), says("never")]) as rig:
        reader, writer = await rig.open()
        await eventually(lambda: rig.server.turns)
        await rig.access.close()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readuntil(b"\r\n\r\n")
        writer.close()
        status, _ = await rig.ask()
        assert status == 403
        assert len(rig.server.turns) == 1
    assert [call.status for call in rig.calls] == [0, 403]


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1", "ftp://a.example", "https://a:b@c.example", "https://a.example?x=1"]
)
def test_a_key_goes_to_no_url_that_could_lose_it(url):
    with pytest.raises(BrainNotConfigured, match="Correct ANTHROPIC_BASE_URL"):
        _ = ModelApi(url, "x-api-key", Secret(KEY)).injection
