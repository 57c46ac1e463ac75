"""An MCP server behind its bridge: what it offers, what it answers, and what becomes of one that misbehaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import ToolsetError
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually
from kagura_kernel.tools.mcp_client import McpClient
from kagura_kernel.tools.toolsets import boxed
from kagura_kernel.tools.toolsets.foreign_tools import ToolsetLimits
from tests.support.toy_mcp import toy_server

Make = Callable[..., McpClient]


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    backend = FakeBackend()
    yield await backend.start(BoxSpec())
    await backend.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def make(box: Box, clock: FakeClock) -> AsyncIterator[Make]:
    made: list[McpClient] = []

    def client(mode: str = "fine", over: Callable[[str], None] = lambda _: None, **limits: Any) -> McpClient:
        start = {"argv": list(toy_server(mode)), "env": {"TOY": "yes"}, "cwd": box.files.root}
        one = McpClient("toy", box, start, over=over, clock=clock, limits=ToolsetLimits(**limits))
        made.append(one)
        return one

    yield client
    await asyncio.gather(*(one.close() for one in made))


async def test_a_server_says_what_it_offers_and_answers_calls_side_by_side(make):
    toy = make()
    await toy.start()
    assert toy.server == "toy 1.0"
    offered = {tool.name: tool for tool in toy.tools}
    assert {"echo", "fail", "parts"} <= offered.keys()
    assert offered["echo"].read_only
    assert not offered["fail"].read_only
    assert "pattern" not in json.dumps(offered["echo"].schema), "a pattern can take for ever"
    assert toy.withheld == (
        "outside: its schema refers to something outside of it",
        "no object: its arguments are no object",
    )
    answers = await asyncio.gather(*(toy.call("echo", {"text": f"{number}"}) for number in range(20)))
    assert answers == [(f"{number}", False, ()) for number in range(20)]
    assert await toy.call("fail", {}) == ("it did not work", True, ())
    assert await toy.call("structured", {}) == ('{"answer": 42}', False, ())
    text, _, (image,) = await toy.call("parts", {})
    assert image.name == "image 2"
    assert text.splitlines() == [
        "before",
        "[image image/png, about 3 bytes]",
        "[resource a page: https://example.org/a]",
        "[resource file:///a.txt text/plain]",
        "inside",
    ]
    environment, _, _ = await toy.call("environment", {})
    assert json.loads(environment)["TOY"] == "yes"


async def test_what_a_server_asks_of_us_is_refused_and_a_ping_is_answered(make):
    toy = make()
    await toy.start()
    for method in ("sampling/createMessage", "elicitation/create", "roots/list", "anything"):
        text, is_error, _ = await toy.call("ask", {"method": method})
        assert not is_error
        assert "not offered" in json.loads(text)["message"]
    assert await toy.call("ask", {"method": "ping"}) == ("{}", False, ())


async def test_a_changed_list_is_not_offered_and_a_tool_that_is_gone_says_so(make):
    toy = make()
    await toy.start()
    assert await toy.call("change", {}) == ("changed", False, ())
    text, is_error, _ = await toy.call("echo", {"text": "x"})
    assert is_error
    assert "no such tool" in text
    assert "the next run is offered the new one" in text
    assert "echo" in [tool.name for tool in toy.tools]


async def test_only_so_many_tools_are_taken_page_by_page(make):
    toy = make("many")
    await toy.start()
    assert len(toy.tools) == 128
    assert toy.withheld[0] == "t128: there are more than 128"


async def test_descriptions_together_are_bounded_too(make):
    toy = make("many", offered_bytes=1000)
    await toy.start()
    assert 0 < len(toy.tools) < 128
    assert "all descriptions together are too long" in toy.withheld[0]


async def test_lines_before_the_first_message_are_a_greeting(make):
    toy = make("banner")
    await toy.start()
    assert await toy.call("echo", {"text": "hello"}) == ("hello", False, ())


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("stop", "its program ended with exit code 3"),
        ("flood", "it sent more than 1000 messages a second"),
        ("noise", "it sent what is no message"),
        ("twice", "it answered what it was not asked, or twice"),
        ("long", "it sent a message longer than 4,194,304 bytes"),
        ("deep", "it sent what is no message: it is nested more than 64 levels deep"),
        ("complain", "it wrote to its standard error without end"),
    ],
)
async def test_a_server_that_breaks_a_limit_is_cut_off_once_and_says_so_at_every_call(make, tool, why):
    over: list[str] = []
    toy = make(over=over.append)
    await toy.start()
    # An answer that came before the breach is one.
    with contextlib.suppress(ToolsetError):
        await toy.call(tool, {})
    await eventually(lambda: over)
    assert over[0].startswith(why)
    with pytest.raises(ToolsetError, match=r"is gone: .* It is not started again in this run"):
        await toy.call("echo", {"text": "x"})
    await toy.close()
    assert len(over) == 1
    if tool == "stop":
        assert toy.log.strip() == "it hurts"


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("noise", "it sent what is no message"),
        ("leaves", "could not be started: its program ended with exit code 4|is gone"),
        ("other", "speaks MCP 1999-01-01"),
    ],
)
async def test_a_server_that_does_not_begin_as_it_should_is_none(make, mode, why):
    toy = make(mode)
    with pytest.raises(ToolsetError, match=why):
        await toy.start()
    assert toy.ending


async def why_it_never_began(box, clock, program: str) -> tuple[list[str], str]:
    """The reasons that were told of a server that is this program, and its log."""
    over: list[str] = []
    start = {"argv": [program], "env": {}, "cwd": None}
    toy = McpClient("toy", box, start, over=over.append, clock=clock, limits=ToolsetLimits())
    with pytest.raises(ToolsetError):
        await toy.start()
    await toy.close()
    return over, toy.log


async def test_a_program_that_is_not_there_is_said(box, clock):
    over, log = await why_it_never_began(box, clock, "no-such-program")
    assert over == ["its program is not in the box"]
    assert "no-such-program cannot be started" in log


async def test_a_box_without_python_is_said(box, clock, monkeypatch):
    monkeypatch.setattr(boxed, "bridge_argv", lambda: ("python3-that-is-not-there",))
    over, _ = await why_it_never_began(box, clock, "cat")
    assert over == ["there is no python3 in its box"]


async def test_a_call_that_runs_out_ends_a_server_that_shows_no_sign_of_life(make, clock):
    over: list[str] = []
    toy = make(over=over.append, call_seconds=7.0)
    await toy.start()
    call = asyncio.create_task(toy.call("silent", {}))
    await clock.until_sleeping()
    await clock.advance(7.0)
    # It reads nothing while it sleeps, so the ping is not answered either.
    await clock.until_sleeping()
    while not call.done():
        await clock.advance(5.0)
    with pytest.raises(ToolsetError, match="did not answer within 7 s"):
        await call
    assert over == ["it does not answer any more"]


async def test_a_server_that_never_answers_is_given_up(make, clock):
    toy = make("silent", start_seconds=9.0)
    start = asyncio.create_task(toy.start())
    await clock.until_sleeping()
    while not start.done():
        await clock.advance(5.0)
    with pytest.raises(ToolsetError, match="did not answer within 9 s"):
        await start


async def test_a_server_that_takes_its_time_at_every_step_is_given_up_all_the_same(box):
    start = {"argv": list(toy_server("drags")), "env": {}, "cwd": box.files.root}
    limits = ToolsetLimits(start_seconds=1.0)
    toy = McpClient("toy", box, start, over=lambda _: None, clock=SystemClock(), limits=limits)
    with pytest.raises(ToolsetError, match="did not answer within 1 s"):
        await toy.start()
    assert toy.ending == "it took too long to begin"
    await toy.close()


async def test_more_calls_than_may_wait_are_told_so(make):
    toy = make(calls=1, waiting=1)
    await toy.start()
    first = asyncio.create_task(toy.call("silent", {}))
    second = asyncio.create_task(toy.call("echo", {"text": "x"}))
    await asyncio.sleep(0)
    with pytest.raises(ToolsetError, match="has 2 calls waiting already"):
        await toy.call("echo", {"text": "y"})
    await toy.close()
    for call in (first, second):
        with pytest.raises(ToolsetError, match="is gone"):
            await call


async def test_a_call_that_nobody_waits_for_leaves_the_server_at_work(make):
    toy = make()
    await toy.start()
    call = asyncio.create_task(toy.call("parts", {}))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await toy.call("echo", {"text": "still there"}) == ("still there", False, ())


async def test_arguments_that_cannot_be_sent_cost_the_call_alone(make):
    toy = make()
    await toy.start()
    with pytest.raises(ToolsetError, match="cannot be sent"):
        await toy.call("echo", {"text": "x" * (5 * 2**20)})
    assert await toy.call("echo", {"text": "x"}) == ("x", False, ())


async def answered(port: int, said: bytes) -> bytes:
    """What a program gets that connects to a port and says this."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(said)
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_nobody_but_the_bridge_gets_the_connection(box, make):
    """Another program of the box that finds the port says no token, and gets nothing."""
    toy = make()
    ports: list[int] = []
    listen = box.listen
    false = b"0" * 32 + b'{"jsonrpc":"2.0","id":1,"result":{}}\n'

    async def noted(*arguments: Any) -> int:
        ports.append(await listen(*arguments))
        assert await answered(ports[0], false) == b""
        return ports[0]

    box.listen = noted
    await toy.start()
    assert await toy.call("echo", {"text": "mine"}) == ("mine", False, ())
    assert await answered(ports[0], false) == b""
    assert await toy.call("echo", {"text": "still mine"}) == ("still mine", False, ())
