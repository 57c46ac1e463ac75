import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    CLIConnectionError,
    Message,
    ProcessError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from kagura_kernel.brain import claude_sealed_talk, claude_sealed_talk as sealed_events
from kagura_kernel.brain.claude_events import Reading, join_session, refused, split_session, usage_of
from kagura_kernel.brain.claude_sealed_talk import LONGEST_RESULT, SealedProgram, SealedReading, Throttle, shortened
from kagura_kernel.brain.claude_talk import ClaudeProgram
from kagura_kernel.brain.provider import (
    BrainDone,
    BrainEvent,
    BrainSign,
    BrainText,
    BrainToolCalled,
    BrainToolFinished,
    BrainUsage,
)
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, BrainRefused

FIGURES = {"input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 30, "output_tokens": 1}


def streamed(event: dict[str, Any], parent: str | None = None) -> StreamEvent:
    return StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=parent)


def start(message_id: str) -> StreamEvent:
    return streamed({"type": "message_start", "message": {"id": message_id, "model": "m", "usage": FIGURES}})


def delta(text: str) -> StreamEvent:
    return streamed({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})


def end(output: int) -> list[StreamEvent]:
    usage = {"output_tokens": output, "input_tokens": None}
    return [streamed({"type": "message_delta", "delta": {}, "usage": usage}), streamed({"type": "message_stop"})]


def whole(message_id: str, *blocks: TextBlock | ToolUseBlock, **fields: Any) -> AssistantMessage:
    return AssistantMessage(content=list(blocks), model="m", usage=FIGURES, message_id=message_id, **fields)


def result(**fields: Any) -> ResultMessage:
    plain = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "session_id": "abc", "subtype": "success"}
    return ResultMessage(**{"is_error": False, **plain, **fields})


def read(reading: Reading, *messages: Message) -> list[BrainEvent]:
    return [event for message in messages for event in reading.read(message)]


@pytest.fixture
def reading() -> Reading:
    return Reading([])


def test_a_streamed_message_is_counted_once_with_its_last_figures():
    blocks = whole("1", TextBlock("Hi")), whole("1", ToolUseBlock("t", "mcp__kagura__bash", {}))
    events = read(Reading([]), start("1"), delta("H"), delta("i"), *blocks, *end(40))
    assert events == [
        BrainText("H", partial=True),
        BrainText("i", partial=True),
        BrainText("Hi"),
        BrainUsage(Usage(60, 40, 20, 30), "m"),
    ]


def test_a_message_that_was_not_streamed_is_counted_once_for_all_its_blocks():
    events = read(Reading([]), whole("1", TextBlock("a")), whole("1", TextBlock("b")))
    assert [event for event in events if isinstance(event, BrainUsage)] == [BrainUsage(Usage(60, 1, 20, 30), "m")]


def test_a_message_that_broke_off_is_counted_when_the_next_begins():
    events = read(Reading([]), start("1"), delta("x"), start("2"), whole("2", TextBlock("y")), *end(7))
    counted = [event.usage.output_tokens for event in events if isinstance(event, BrainUsage)]
    assert counted == [1, 7]


def test_a_second_try_at_a_message_is_not_read_twice():
    broken = [start("1"), delta("The wh"), streamed({"type": "message_stop"})]
    again = [start("2"), delta("The wh"), delta("ole."), whole("2", TextBlock("The whole.")), *end(7)]
    after = [start("3"), delta("More."), whole("3", TextBlock("More.")), *end(7)]
    texts = [event for event in read(Reading([]), *broken, *again, *after) if isinstance(event, BrainText)]
    assert texts == [
        BrainText("The wh", partial=True),
        BrainText("The whole."),
        BrainText("More.", partial=True),
        BrainText("More."),
    ]


@pytest.mark.parametrize("stop", [[], [streamed({"type": "message_stop"})]])
@pytest.mark.parametrize("status", [None, 200])
def test_a_connection_that_was_cut_in_an_answer_is_a_loss_in_few_words(reading, stop, status):
    said = "API Error: API returned an empty or malformed response (HTTP 200) - check for a proxy " + "x" * 900
    read(reading, start("1"), delta("The wh"), *stop, whole("x", TextBlock(said), error="unknown"))
    with pytest.raises(BrainLost, match="cut in the middle of an answer") as caught:
        read(reading, result(is_error=True, result=said, api_error_status=status))
    assert len(caught.value.message) < 150


def test_an_address_that_is_none_is_a_matter_of_setting_up(reading):
    said = "API Error: Invalid URL"
    read(reading, whole("1", TextBlock(said), error="unknown"))
    with pytest.raises(BrainNotConfigured, match="ANTHROPIC_BASE_URL is no address"):
        read(reading, result(is_error=True, result=said))


@pytest.mark.parametrize("refusal", [None, "unknown"])
def test_a_service_that_nothing_reached_has_refused_nothing(reading, refusal):
    said = "API Error: Can't reach the API server — check your internet or DNS (ENOTFOUND)"
    read(reading, whole("1", TextBlock(said), error=refusal))
    with pytest.raises(BrainLost, match=r"cannot be reached \(ENOTFOUND\)\. Look at the network") as caught:
        read(reading, result(is_error=True, result=said))
    assert caught.value.message.endswith("where they are set. The run was stopped; run the cell again.")


def test_a_refusal_after_a_cut_is_a_refusal(reading):
    read(reading, start("1"), delta("The wh"), streamed({"type": "message_stop"}))
    with pytest.raises(BrainRefused) as caught:
        read(reading, result(is_error=True, api_error_status=529))
    assert caught.value.status == 529


def test_an_error_after_a_cut_that_was_made_good_is_no_cut(reading):
    read(reading, start("1"), delta("a"), start("2"), whole("2", TextBlock("ab")), *end(3))
    with pytest.raises(BrainLost, match="error_during_execution"):
        read(reading, result(subtype="error_during_execution", is_error=True))


def test_the_end_sums_up(reading):
    read(reading, start("1"), *end(5), start("2"), *end(6))
    (done,) = read(reading, result(result="Fine.", total_cost_usd=0.25))
    assert done == BrainDone("Fine.", join_session("abc", 0.25), 0.25, Usage(120, 11, 40, 60), "m", 2)


def test_a_resumed_session_reports_what_was_added():
    (done,) = read(Reading([], join_session("abc", 0.2)), result(total_cost_usd=0.5))
    assert isinstance(done, BrainDone)
    assert done.reported_usd == pytest.approx(0.3)
    assert split_session(done.session) == ("abc", 0.5)


def test_no_reported_cost_is_none_and_not_zero():
    (done,) = read(Reading([]), result())
    assert isinstance(done, BrainDone)
    assert done.reported_usd is None


@pytest.mark.parametrize(("subtype", "stopped"), [("error_max_budget_usd", "budget"), ("error_max_turns", "turns")])
def test_a_limit_is_an_end_and_keeps_the_last_text(reading, subtype, stopped):
    read(reading, whole("1", TextBlock("so far")))
    (done,) = read(reading, result(subtype=subtype, is_error=True))
    assert isinstance(done, BrainDone)
    assert (done.stopped, done.text) == (stopped, "so far")


def test_what_a_helper_agent_says_is_not_the_brains_text(reading):
    inner = streamed({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}, parent="t")
    assert read(reading, inner, whole("1", TextBlock("x"), parent_tool_use_id="t")) == []


def test_a_tool_that_is_not_ours_ends_the_run_before_it_begins():
    init = SystemMessage("init", {"tools": ["mcp__kagura__bash", "Bash"]})
    with pytest.raises(BrainLost, match="not ours \\(Bash\\)"):
        read(Reading(["mcp__kagura__bash"]), init)


def test_our_own_tools_are_fine():
    assert read(Reading(["mcp__kagura__bash"]), SystemMessage("init", {"tools": ["mcp__kagura__bash"]})) == []


def test_the_programs_own_error_text_is_not_the_models():
    assert read(Reading([]), whole("1", TextBlock("API Error"), error="rate_limit")) == []


def test_a_key_that_is_not_accepted_is_not_tried_again():
    with pytest.raises(BrainRefused) as caught:
        read(Reading([]), SystemMessage("api_retry", {"error_status": 401}))
    assert caught.value.status == 401


def test_an_overload_may_be_tried_again():
    said = {"attempt": 1, "max_retries": 9, "retry_delay_ms": 1500, "error_status": 529, "error": "overloaded"}
    assert read(Reading([]), SystemMessage("api_retry", said)) == [BrainSign("retrying", "overloaded", 2, 10, 1.5)]
    # Another program may say less.
    told = read(Reading([]), SystemMessage("api_retry", {"error": "rate_limit", "attempt": None}))
    assert told == [BrainSign("retrying", "too many requests", 1, 1)]


def test_thoughts_are_told_as_they_come_and_are_no_answer():
    begun = streamed({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}})
    piece = {"type": "thinking_delta", "thinking": "First the totals."}
    thought = streamed({"type": "content_block_delta", "index": 0, "delta": piece})
    told = read(Reading([]), start("1"), begun, thought)
    assert told == [BrainSign("thinking"), BrainSign("thinking", "First the totals.")]


def test_an_error_without_a_status_is_told_by_its_kind(reading):
    read(reading, whole("1", TextBlock("Not logged in"), error="authentication_failed"))
    with pytest.raises(BrainNotConfigured, match="sign in"):
        read(reading, result(is_error=True, result="Not logged in · Please run /login"))
    other = Reading([])
    read(other, whole("1", TextBlock("?"), error="unknown"))
    with pytest.raises(BrainRefused, match="no connection"):
        read(other, result(is_error=True, result="no connection"))


def test_an_error_that_says_nothing_means_it_is_lost():
    with pytest.raises(BrainLost, match="error_during_execution"):
        read(Reading([]), result(subtype="error_during_execution", is_error=True))


def test_an_unknown_status_brings_the_services_own_words():
    assert "answered 418: tea" in str(refused(418, "tea"))


def test_tokens_that_are_missing_are_none_at_all():
    assert usage_of({}) == Usage()
    assert usage_of({"input_tokens": 5, "cache_read_input_tokens": None}) == Usage(input_tokens=5)


@pytest.mark.parametrize("session", ["a b", "x;y", "abc$money", "--resume=x y"])
def test_a_strange_session_is_refused(session):
    with pytest.raises(BrainRefused, match="--new"):
        split_session(session)


def test_a_plain_session_id_has_cost_nothing():
    assert split_session("abc-1") == ("abc-1", 0.0)
    assert split_session("") == ("", 0.0)
    assert join_session("", 1.0) == ""


def said(*blocks: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(content=list(blocks), model="m-1", **more)


def answered(*blocks: Any) -> UserMessage:
    return UserMessage(content=list(blocks))


def result_of_claude_sealed_talk(**more: Any) -> ResultMessage:
    fields = {"subtype": "success", "is_error": False, "num_turns": 9, "session_id": "s", "total_cost_usd": 0.0}
    return ResultMessage(duration_ms=1, duration_api_ms=1, result="Done.", **{**fields, **more})


def read_of_claude_sealed_talk(*messages: Message, reading: SealedReading | None = None) -> list[BrainEvent]:
    reading = reading or SealedReading()
    return [event for message in messages for event in reading.read(message)]


def test_its_own_tools_are_told_with_ids_of_ours():
    called, finished = read_of_claude_sealed_talk(
        said(ToolUseBlock("call-1", "Bash", {"command": "ls"})), answered(ToolResultBlock("call-1", "a.txt"))
    )
    assert isinstance(called, BrainToolCalled)
    assert (called.name, called.arguments) == ("Bash", {"command": "ls"})
    assert called.id != "call-1", "the box could name a call of somebody else"
    assert called.known
    assert finished == BrainToolFinished(called.id, "Bash", "a.txt", known=True)


def test_a_tool_that_the_program_was_not_given_is_told_as_not_known():
    (called,) = read_of_claude_sealed_talk(said(ToolUseBlock("call-1", "no_such_tool", {})))
    assert isinstance(called, BrainToolCalled)
    assert not called.known


def test_what_a_sub_agent_of_it_uses_is_told_too():
    events = read_of_claude_sealed_talk(
        said(TextBlock("inner"), ToolUseBlock("t", "Read", {}), parent_tool_use_id="task")
    )
    assert [type(event) for event in events] == [BrainToolCalled]


def test_calls_of_our_tools_are_told_by_those_who_carry_them_out():
    block = ToolUseBlock("t", "mcp__kagura__ask_user", {"question": "?"})
    assert read_of_claude_sealed_talk(said(block), answered(ToolResultBlock("t", "yes"))) == []


def test_answers_that_nobody_waits_for_are_none():
    block = ToolResultBlock("never-called", "x")
    assert read_of_claude_sealed_talk(answered(block), UserMessage(content="a text")) == []


def test_it_is_busy_while_a_tool_of_its_own_runs():
    reading = SealedReading()
    assert not reading.busy
    read_of_claude_sealed_talk(said(ToolUseBlock("t", "Bash", {})), reading=reading)
    assert reading.busy
    read_of_claude_sealed_talk(answered(ToolResultBlock("t", None, is_error=True)), reading=reading)
    assert not reading.busy


def test_what_it_says_of_tokens_and_money_is_not_believed():
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "m", "model": "m-1", "usage": usage}}
    stop = {"type": "message_stop"}
    streamed = [StreamEvent(uuid="u", session_id="s", event=event) for event in (start, stop)]
    events = read_of_claude_sealed_talk(
        *streamed,
        said(TextBlock("Hello."), message_id="n", usage=usage),
        result_of_claude_sealed_talk(total_cost_usd=99.0),
    )
    assert events == [BrainText("Hello."), BrainDone(text="Done.")]


def test_a_limit_of_rounds_is_told_as_the_one_that_was_set():
    (done,) = read_of_claude_sealed_talk(
        result_of_claude_sealed_talk(subtype="error_max_turns", is_error=True), reading=SealedReading(max_turns=3)
    )
    assert isinstance(done, BrainDone)
    assert (done.stopped, done.turns) == ("turns", 3)
    (done,) = read_of_claude_sealed_talk(result_of_claude_sealed_talk(subtype="error_max_budget_usd", is_error=True))
    assert isinstance(done, BrainDone)
    assert done.stopped == "", "it was given no budget to keep to"


def test_long_results_keep_their_beginning_and_their_end():
    _, finished = read_of_claude_sealed_talk(
        said(ToolUseBlock("t", "Bash", {})),
        answered(ToolResultBlock("t", [{"type": "text", "text": "a" * 99_999 + "z"}, {"type": "image", "data": "…"}])),
    )
    assert isinstance(finished, BrainToolFinished)
    assert len(finished.text) < LONGEST_RESULT + 100
    assert finished.text.startswith("aaa")
    assert finished.text.endswith("z\n(image)")
    assert "characters left out" in finished.text


@pytest.mark.parametrize("arguments", [{"content": "x" * 100_000}, {"a": [[[["deep"]]]]}])
def test_arguments_that_are_too_much_are_cut(arguments, monkeypatch):
    monkeypatch.setattr(sealed_events, "DEEPEST", 3)
    (called,) = read_of_claude_sealed_talk(said(ToolUseBlock("t", "Write", arguments)))
    assert isinstance(called, BrainToolCalled)
    assert set(called.arguments) <= {"shortened", "left_out"}
    assert len(str(called.arguments)) < 40_000


def test_a_name_that_is_none_is_made_harmless():
    (called,) = read_of_claude_sealed_talk(said(ToolUseBlock("t", "\x1b[31m" + "n" * 500, {})))
    assert isinstance(called, BrainToolCalled)
    assert called.name.isprintable()
    assert len(called.name) <= 64


@pytest.mark.parametrize(("limit", "value"), [("MOST_EVENTS", 5), ("MOST_CHARACTERS", 20)])
def test_a_program_that_says_too_much_is_lost(limit, value, monkeypatch):
    monkeypatch.setattr(sealed_events, limit, value)
    with pytest.raises(BrainLost, match="more than anybody could read"):
        read_of_claude_sealed_talk(*(said(TextBlock("Hello.")) for _ in range(10)))


def test_a_program_that_begins_without_end_is_lost():
    with pytest.raises(BrainLost, match="more than it could end"):
        read_of_claude_sealed_talk(*(said(ToolUseBlock(f"t{number}", "Bash", {})) for number in range(300)))


def test_a_short_text_stays_as_it_is():
    assert shortened("abc", 3) == "abc"
    assert shortened("abcdef", 4) == "ab\n… 2 characters left out …\nef"


class SpokenProgram:
    """A program that says what is written down."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks
        self.heard = b""
        self.killed = False

    async def output(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk

    async def write(self, data: bytes) -> None:
        if self.killed:
            raise ConnectionResetError
        self.heard += data

    def kill(self) -> None:
        self.killed = True

    async def close(self) -> None:
        self.killed = True

    def ending(self) -> str:
        return "it was stopped" if self.killed else ""

    def last_words(self) -> str:
        return "the end"


class Place:
    """Where it is started."""

    api, root = "http://127.0.0.1:1", False
    environment: Mapping[str, str] = {}

    def __init__(self, *chunks: bytes) -> None:
        self.program = SpokenProgram(chunks)
        self.started: list[tuple[Sequence[str], Mapping[str, str]]] = []
        self.texts: dict[str, str] = {}

    async def put(self, name: str, text: str) -> str:
        self.texts[name] = text
        return f"/kept/{name}"

    async def start(self, argv: Sequence[str], env: Mapping[str, str]) -> SpokenProgram:
        self.started.append((argv, env))
        return self.program


async def messages(*chunks: bytes) -> list[dict[str, Any]]:
    program = SealedProgram(Place(*chunks), ["claude"], {}, "")
    await program.connect()
    return [message async for message in program.read_messages()]


async def test_its_system_prompt_is_a_file_in_the_box():
    place = Place()
    program = SealedProgram(place, ["claude", "--system={system}"], {"A": "1"}, "be good")
    await program.connect()
    assert place.started == [(["claude", "--system=/kept/system.txt"], {"A": "1"})]
    assert place.texts == {"system.txt": "be good"}
    assert program.is_ready()
    await program.write("hello")
    assert place.program.heard == b"hello"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_messages_are_lines_however_they_are_cut(size):
    data = b'{"a": 1}\nno message\n\n{"b": "' + b"x" * 50 + b'"}\n{"half'
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert await messages(*chunks) == [{"a": 1}, {"b": "x" * 50}]


async def test_a_long_message_is_read_too():
    long = {"text": "x" * 500_000}
    assert await messages(json.dumps(long).encode() + b"\n") == [long]


async def test_a_message_without_end_ends_the_program(monkeypatch):
    monkeypatch.setattr(claude_sealed_talk, "LONGEST_LINE", 100)
    with pytest.raises(CLIConnectionError, match="without end"):
        await messages(*[b"x" * 60] * 3)


async def test_a_program_that_was_stopped_before_it_began_is_not_started():
    place = Place()
    program = SealedProgram(place, ["claude"], {}, "")
    program.kill()
    await program.connect()
    assert place.started == []
    with pytest.raises(CLIConnectionError, match="not started"):
        await program.write("hello")


async def test_a_program_that_is_gone_is_told_of():
    program = SealedProgram(Place(), ["claude"], {}, "")
    await program.connect()
    program.kill()
    with pytest.raises(CLIConnectionError, match="does not read any more"):
        await program.write("hello")
    assert (program.ending(), program.last_words(), program.is_ready()) == ("it was stopped", "the end", False)


@pytest.mark.parametrize("ours", [True, False])
async def test_only_a_program_that_ended_badly_by_itself_is_an_error_to_its_reader(tmp_path, ours):
    program = ClaudeProgram(["sh", "-c", "echo '{}'; read _; exit 3"], {"PATH": os.environ["PATH"]}, tmp_path, "")
    await program.connect()
    reader = program.read_messages()
    assert await anext(reader) == {}
    if ours:
        program.kill()
        assert [message async for message in reader] == []
    else:
        await program.end_input()
        with pytest.raises(ProcessError):
            await anext(reader)
    await program.close()


def test_reading_waits_only_for_who_comes_too_fast():
    throttle = Throttle(rate=10, burst=100)
    assert throttle.take(0.0, 100) == 0.0
    assert throttle.take(0.0, 10) == pytest.approx(1.0)
    assert throttle.take(1.0, 10) == pytest.approx(1.0)
    assert throttle.take(100.0, 100) == 0.0
