"""The pydantic_ai brain and the real library, offline: what the service is sent, what it may refuse, how a run ends."""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from typing import Any

import pytest

from kagura_kernel.brain.openai_compatible import KNOWN, Endpoint, Figures, Key, name_of
from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainText, BrainUsage, Turn
from kagura_kernel.brain.pydantic_ai import PydanticAIBrain
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, BrainRefused, NotThisTime, SecretUnavailable
from kagura_kernel.domain.images import Image
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec
from kagura_kernel.testing.conformance.brain import ECHO as ECHO_TOOL, ToolLog, a_turn, all_events
from tests.support.model_script import BrokenStream, Calls, ModelTurn, Refusal, Silence, calls, says
from tests.support.openai_server import TOO_LONG, UNFINISHED, OpenAIServer, tool_answers, tool_names
from tests.support.tls import authority, serving

KEY = "dummy-key-0123456789-never-real"
ECHO = {"word": "one"}


def a_key(value: str = KEY) -> Key:
    async def read() -> str:
        return value

    return Key("WORK_API_KEY", read)


def brain_at(server: OpenAIServer, *, window: int | None = None, price: Any = None, **knobs: Any) -> PydanticAIBrain:
    work = Endpoint("work", server.url, "small-1", a_key(), window)
    figures = Figures() if price is None else Figures(price)
    return PydanticAIBrain({"work": work}, "work", figures=figures, **knobs)


async def done_of(brain: PydanticAIBrain, turn: Turn) -> BrainDone:
    last = (await all_events(brain, turn))[-1]
    assert isinstance(last, BrainDone)
    return last


def a_cent(_usage: Usage, _model: str, _at: datetime) -> tuple[float, str]:
    return 0.01, "a test"


# ------------------------------------------------------------- what it is given


async def test_the_service_gets_the_task_our_tools_and_the_key_and_nothing_of_this_environment(monkeypatch):
    environment = {
        "OPENAI_API_KEY": "canary-key",
        "OPENAI_ORG_ID": "canary-org",
        "OPENAI_PROJECT_ID": "canary-project",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_CUSTOM_HEADERS": "x-canary: canary-header\nauthorization: Bearer canary-key",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with OpenAIServer([says("ok")], key=KEY) as server:
        await done_of(brain_at(server), a_turn(ToolLog()))
        (request,) = server.turns
    assert request.body["model"] == "small-1"
    assert request.body["messages"] == [
        {"role": "system", "content": "You are being tested."},
        {"role": "user", "content": "Say something."},
    ]
    assert tool_names(request.body) == ["echo"]
    assert "canary" not in json.dumps([dict(request.headers), request.body])


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("model", ["qwen3:32b", "gpt-5-mini", "mistral-large-latest"])
async def test_every_known_service_is_spoken_to_in_the_same_words(name, model):
    log = ToolLog()
    with OpenAIServer([calls("echo", ECHO, first="I ask."), says("The answer came.")], key=KEY) as server:
        brain = PydanticAIBrain({name: Endpoint(name, server.url, model, a_key())}, name)
        done = await done_of(brain, a_turn(log))
        first, second = (request.body for request in server.turns)
    assert (done.text, done.model, len(log.calls)) == ("The answer came.", f"{name}:{model}", 1)
    assert (first["model"], tool_names(first)) == (model, ["echo"])
    told = [message["content"] for message in second["messages"][:2]]
    assert told == ["You are being tested.", "Say something."]
    assert tool_answers(second) == ["echo: one"]


async def test_without_a_key_nothing_that_could_be_one_is_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    with OpenAIServer([says("ok")]) as server:
        brain = PydanticAIBrain({"here": Endpoint("here", server.url, "m")}, "here")
        assert (await done_of(brain, a_turn(ToolLog()))).text == "ok"
        assert "authorization" not in server.turns[0].headers


async def test_a_service_that_sends_the_caller_elsewhere_is_not_followed():
    with OpenAIServer([says("got it")]) as thief, OpenAIServer(moved_to=f"{thief.url}/chat/completions") as server:
        with pytest.raises(BrainRefused, match="307"):
            await all_events(brain_at(server), a_turn(ToolLog()))
        assert thief.requests == []


async def test_a_turn_without_tools_offers_none():
    with OpenAIServer([says("ok")]) as server:
        await done_of(brain_at(server), Turn("Judge.", "s", [], ToolLog()))
        assert "tools" not in server.turns[0].body


async def test_another_endpoint_and_model_are_named_before_the_colon():
    with OpenAIServer([says("there")]) as server:
        endpoints = {"here": Endpoint("here", "http://127.0.0.1:9/v1", "m"), "there": Endpoint("there", server.url)}
        done = await done_of(PydanticAIBrain(endpoints, "here"), a_turn(ToolLog(), model="there:qwen3:32b"))
        assert server.turns[0].body["model"] == "qwen3:32b"
    assert done.model == "there:qwen3:32b"


# ------------------------------------------------------------------------ tools


async def test_answers_go_back_to_their_calls_and_failures_are_told():
    seen: list[str] = []

    def see(request: Mapping[str, Any]) -> ModelTurn:
        seen.extend(tool_answers(request))
        return says("ok")

    async def answer(call: ToolCall) -> ToolResult:
        return ToolResult(f"said {call.arguments['word']}", is_error=call.arguments["word"] == "two")

    both = ModelTurn((Calls("echo", {"word": "one"}, id="call-a"), Calls("echo", {"word": "two"}, id="call-b")))
    with OpenAIServer([both, see]) as server:
        await done_of(brain_at(server), a_turn(answer))
        sent = server.turns[1].body["messages"]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["call-a", "call-b"]
    assert seen[0] == "said one"
    assert "said two" in seen[1]


async def test_images_come_with_the_task_and_after_the_answers_that_they_belong_to():
    picture = Image("image/png", 1, 1, b"bytes of a picture", "plan.png")

    async def draw(call: ToolCall) -> ToolResult:
        return ToolResult(f"drew {call.arguments['word']}", images=(Image("image/png", 1, 1, b"bytes of a figure"),))

    with OpenAIServer([calls("echo", ECHO), says("ok")]) as server:
        await done_of(brain_at(server), replace(a_turn(draw), images=[picture]))
        _, task, _, answer, shown = server.turns[1].body["messages"]
    assert [part.get("text", "an image") for part in task["content"]] == ["plan.png:", "an image", "Say something."]
    assert task["content"][1]["image_url"]["url"] == picture.address
    assert (answer["role"], answer["content"]) == ("tool", "drew one")
    said, image = shown["content"]
    assert said["text"].startswith("[Shown by echo, call ")
    assert image["image_url"]["url"] == Image("image/png", 1, 1, b"bytes of a figure").address


async def test_calls_that_may_change_something_are_made_one_after_the_other():
    careful = ToolSpec("echo", "Says it.", {"type": "object", "properties": {"word": {"type": "string"}}})
    log = ToolLog(wait=0.05)
    both = ModelTurn((Calls("echo", {"word": "first"}), Calls("echo", {"word": "second"})))
    with OpenAIServer([both, says("ok")]) as server:
        await done_of(brain_at(server), Turn("go", "s", [careful], log))
    assert [call.arguments["word"] for call in log.calls] == ["first", "second"]
    assert log.most_at_once == 1


@pytest.mark.parametrize("written", ['{"word": ', "[1, 2]", "no json", '{"a":' * 3000])
async def test_arguments_that_are_no_object_are_told_to_the_model_and_no_tool_is_called(written):
    log = ToolLog()
    with OpenAIServer([calls("echo", {"(raw)": written}), says("I see.")]) as server:
        done = await done_of(brain_at(server), a_turn(log))
        (told,) = tool_answers(server.turns[1].body)
        (asked,) = server.turns[1].body["messages"][2]["tool_calls"]
    assert "no JSON object" in told
    assert asked["function"]["arguments"] == "{}", "some services refuse what is no JSON"
    assert log.calls == []
    assert done.text == "I see."


async def test_a_long_result_reaches_the_model_whole_where_it_fits():
    whole = "x" * 180_000 + "END"

    async def long(_call: ToolCall) -> ToolResult:
        return ToolResult(whole)

    with OpenAIServer([calls("echo", ECHO), says("ok")]) as server:
        await done_of(brain_at(server, window=200_000), a_turn(long))
        assert tool_answers(server.turns[1].body) == [whole]


# ------------------------------------------------------------------- its window


async def test_a_long_conversation_keeps_its_task_and_loses_its_oldest_answers_first():
    async def long(call: ToolCall) -> ToolResult:
        return ToolResult(f"answer {call.arguments['word']} " + "x" * 6000)

    script = [calls("echo", {"word": f"n{number}"}, first=f"Round {number}.") for number in range(8)]
    with OpenAIServer([*script, says("done")], tells_usage=False) as server:
        done = await done_of(brain_at(server, window=8192), a_turn(long))
        requests = [request.body for request in server.turns]
    assert done.text == "done"
    for request in requests:
        assert request["messages"][0] == {"role": "system", "content": "You are being tested."}
        assert request["messages"][1]["content"].startswith("Say something.")
        assert len(json.dumps(request)) < 8192 * 3
        asked = [call["id"] for message in request["messages"] for call in message.get("tool_calls") or ()]
        assert asked == [message["tool_call_id"] for message in request["messages"] if message["role"] == "tool"]
    last = [message["content"] for message in requests[-1]["messages"] if message["role"] == "tool"]
    assert "left out" in last[0]
    assert last[-1].startswith("answer n7 x")
    assert len(last[-1]) > 6000


async def test_a_window_that_proves_smaller_is_tried_again_with_less():
    async def long(call: ToolCall) -> ToolResult:
        return ToolResult(f"answer {call.arguments['word']} " + "x" * 9000)

    script = [calls("echo", {"word": "a"}), calls("echo", {"word": "b"}), TOO_LONG, says("It fits.")]
    with OpenAIServer(script) as server:
        done = await done_of(brain_at(server), a_turn(long))
        sizes = [len(json.dumps(request.body)) for request in server.turns]
    assert done.text == "It fits."
    assert sizes[3] < sizes[2] * 0.8


async def test_a_task_that_alone_is_too_long_is_refused_before_it_is_sent():
    with OpenAIServer([says("never")]) as server:
        turn = Turn("word " * 50_000, "s", [ECHO_TOOL], ToolLog())
        with pytest.raises(BrainRefused, match=r"do not fit into 4096 tokens.*context_tokens"):
            await all_events(brain_at(server, window=4096), turn)
        assert server.turns == []


async def test_a_service_that_finds_everything_too_long_is_believed_in_the_end():
    with OpenAIServer(lambda _request: TOO_LONG) as server:
        with pytest.raises(BrainRefused, match="do not fit"):
            await all_events(brain_at(server), a_turn(ToolLog()))
        assert len(server.turns) == 1


# ---------------------------------------------------------------------- its money


async def test_usage_is_told_round_by_round_and_names_the_endpoint():
    with OpenAIServer([calls("echo", ECHO), says("ok")]) as server:
        events = await all_events(brain_at(server), a_turn(ToolLog()))
    rounds = [event for event in events if isinstance(event, BrainUsage)]
    assert rounds == [BrainUsage(Usage(1420, 40, 1000), "work:small-1")] * 2
    done = events[-1]
    assert isinstance(done, BrainDone)
    assert (done.turns, done.model, done.reported_usd) == (2, "work:small-1", None)


async def test_a_service_that_tells_no_tokens_is_counted_by_a_guess_and_not_as_free():
    with OpenAIServer([says("word " * 100)], tells_usage=False) as server:
        done = await done_of(brain_at(server), a_turn(ToolLog()))
    assert 20 < done.usage.input_tokens < 500
    assert 100 < done.usage.output_tokens < 400


@pytest.mark.parametrize("tokens", [10**30, 10**400])
async def test_figures_beyond_all_reason_end_no_run(tokens):
    with OpenAIServer([says("ok", input_tokens=tokens)]) as server:
        done = await done_of(brain_at(server), a_turn(ToolLog()))
    assert done.usage.input_tokens == 10**12


async def test_a_budget_without_a_known_price_is_refused_before_anything_is_asked():
    with OpenAIServer([says("never")]) as server:
        with pytest.raises(NotThisTime, match=r"`input_usd` and `output_usd` in \[endpoints\.work\]\."):
            await all_events(brain_at(server), a_turn(ToolLog(), budget_usd=1.0))
        nameless = Endpoint(name_of(server.url), server.url, "small-1")
        with pytest.raises(NotThisTime, match=r"in a table \[endpoints\.NAME\] with its `url`, and NAME as"):
            await all_events(
                PydanticAIBrain({nameless.name: nameless}, nameless.name), a_turn(ToolLog(), budget_usd=1.0)
            )
        assert server.requests == []


async def test_a_budget_ends_it_before_the_next_call():
    log = ToolLog()
    with OpenAIServer([calls("echo", ECHO)] * 9) as server:
        done = await done_of(brain_at(server, price=a_cent), a_turn(log, budget_usd=0.025))
    assert (done.stopped, done.turns, len(log.calls)) == ("budget", 3, 2)


async def test_it_stops_when_the_turns_are_used_up():
    with OpenAIServer([calls("echo", ECHO)] * 9) as server:
        done = await done_of(brain_at(server), a_turn(ToolLog(), max_turns=2))
    assert (done.stopped, done.turns) == ("turns", 2)


@pytest.mark.parametrize(("limit", "stopped"), [({"budget_usd": 0.0}, "budget"), ({"max_turns": 0}, "turns")])
async def test_with_nothing_left_to_spend_nothing_is_asked(limit, stopped):
    with OpenAIServer([says("never")]) as server:
        done = await done_of(brain_at(server), a_turn(ToolLog(), **limit))
        assert server.requests == []
    assert done.stopped == stopped


# -------------------------------------------------------------------- the service


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (401, "WORK_API_KEY"),
        (403, "may not"),
        (404, "--model"),
        (418, "418"),
        (429, "Wait"),
        (500, "Wait"),
        (503, "Wait"),
        (529, "Wait"),
    ],
)
async def test_a_refusal_names_its_status_and_what_to_do(status, word):
    with OpenAIServer(lambda _request: Refusal(status, message=f"no, {KEY}")) as server:
        with pytest.raises(BrainRefused) as caught:
            await all_events(brain_at(server, max_retries=1), a_turn(ToolLog()))
        asked = len(server.turns)
    assert caught.value.status == status
    assert caught.value.code == "ERR_BRAIN_REFUSED"
    assert word in str(caught.value)
    assert KEY not in str(caught.value)
    assert asked <= 2


async def test_a_service_given_by_its_url_alone_is_told_which_variable_holds_its_key():
    with OpenAIServer(lambda _request: Refusal(401)) as server:
        nameless = Endpoint(name_of(server.url), server.url, "small-1")
        with pytest.raises(BrainRefused, match=r"set KAGURA_BRAIN_API_KEY, or say where it is in a table"):
            await all_events(PydanticAIBrain({nameless.name: nameless}, nameless.name), a_turn(ToolLog()))


async def test_an_overloaded_service_is_asked_again():
    with OpenAIServer([Refusal(503, retry_after=0.05), Refusal(429, retry_after=0.05), says("ok")]) as server:
        assert (await done_of(brain_at(server), a_turn(ToolLog()))).text == "ok"
        assert len(server.turns) == 3


@pytest.mark.parametrize(
    "cut", [BrokenStream(says("A long text. " * 20)), says("A long text. " * 20, stop_reason=UNFINISHED)]
)
async def test_a_stream_that_is_cut_is_a_loss_and_what_came_is_shown(cut):
    events: list[BrainEvent] = []
    with OpenAIServer([cut]) as server:

        async def listen() -> None:
            async for event in brain_at(server).run(a_turn(ToolLog())):
                events.append(event)  # noqa: PERF401 - what came before the error counts

        with pytest.raises(BrainLost, match="cut in the middle of an answer"):
            await listen()
    pieces = "".join(event.text for event in events if isinstance(event, BrainText) and event.partial)
    assert pieces
    assert ("A long text. " * 20).startswith(pieces)


async def test_an_answer_that_the_service_breaks_off_for_its_content_is_refused():
    filtered = says("Well", stop_reason="content_filter")
    with OpenAIServer([filtered]) as server, pytest.raises(BrainRefused, match="because of its content"):
        await all_events(brain_at(server), a_turn(ToolLog()))


async def test_where_nothing_answers_it_says_what_to_start():
    ollama = Endpoint("ollama", "http://127.0.0.1:9/v1", "m", start="start it with `ollama serve`")
    with pytest.raises(BrainLost, match=r"nothing answers at ollama .*; start it with `ollama serve`"):
        await all_events(PydanticAIBrain({"ollama": ollama}, "ollama", max_retries=0), a_turn(ToolLog()))


async def test_a_certificate_is_trusted_where_ssl_cert_file_says_so_and_told_of_where_not(tmp_path, monkeypatch):
    with OpenAIServer([says("Hello.")]) as server:
        server._listener.socket = serving("127.0.0.1").wrap_socket(server._listener.socket, server_side=True)
        url = server.url.replace("http://", "https://")
        brain = PydanticAIBrain({"work": Endpoint("work", url, "m")}, "work", max_retries=0)
        with pytest.raises(BrainLost, match=r"certificate of work .* is not trusted \(.*\); let SSL_CERT_FILE name"):
            await all_events(brain, a_turn(ToolLog()))
        authorities = tmp_path / "authorities.pem"
        monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
        with pytest.raises(BrainNotConfigured, match=r"SSL_CERT_FILE or SSL_CERT_DIR names .* \(No such file"):
            await all_events(brain, a_turn(ToolLog()))
        authorities.write_bytes(authority())
        assert (await done_of(brain, a_turn(ToolLog()))).text == "Hello."


async def test_where_a_proxy_is_not_used_the_error_says_so(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    far = Endpoint("far", "https://0.0.0.0:9/v1", "m")
    with pytest.raises(BrainLost, match=r"nothing answers at far .*; this brain goes there by itself, past the proxy"):
        await all_events(PydanticAIBrain({"far": far}, "far", max_retries=0), a_turn(ToolLog()))


async def test_a_key_that_is_not_there_is_told_without_asking_the_service():
    async def missing() -> str:
        raise SecretUnavailable("endpoints.work.key_keyring", "the keychain has no such entry")

    with OpenAIServer([says("never")]) as server:
        work = Endpoint("work", server.url, "m", Key("endpoints.work.key_keyring", missing))
        with pytest.raises(BrainNotConfigured, match="the keychain has no such entry"):
            await all_events(PydanticAIBrain({"work": work}, "work"), a_turn(ToolLog()))
        assert server.requests == []


async def test_a_key_is_never_sent_in_the_clear_to_another_machine():
    far = Endpoint("far", "http://llm.example.org/v1", "m", a_key())
    brain = PydanticAIBrain({"far": far}, "far")
    assert not brain.resolve_auth().ready
    with pytest.raises(BrainNotConfigured, match="https"):
        await all_events(brain, a_turn(ToolLog()))


# --------------------------------------------------------------------- its ending


async def test_silence_loses_it():
    with OpenAIServer([Silence()]) as server:
        with pytest.raises(BrainLost, match=r"said nothing for 0\.5 s"):
            await all_events(brain_at(server, silence=0.5), a_turn(ToolLog()))
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_model_that_writes_long_arguments_is_not_silent():
    log = ToolLog()
    slow = ModelTurn((Calls("echo", {"word": "x" * 400}),), delay=0.05)
    with OpenAIServer([slow, says("ok")]) as server:
        assert (await done_of(brain_at(server, silence=0.5), a_turn(log))).text == "ok"
    assert log.calls[0].arguments["word"] == "x" * 400


async def test_an_answer_that_comes_to_no_end_is_given_up(monkeypatch):
    service = import_module("kagura_kernel.brain.pydantic_ai_service")
    monkeypatch.setattr(service, "_LONGEST_ANSWER", 5000)
    for endless in (says("again " * 2000), calls("echo", {"word": "x" * 9000})):
        log = ToolLog()
        with OpenAIServer([endless]) as server, pytest.raises(BrainLost, match="came to no end"):
            await all_events(brain_at(server), a_turn(log))
        assert log.calls == []


async def test_without_its_library_it_names_the_command_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    brain = PydanticAIBrain({"here": Endpoint("here", "http://127.0.0.1:9/v1", "m")}, "here")
    assert "pip install 'kagura-kernel[openai]'" in brain.resolve_auth().reason
    with pytest.raises(BrainNotConfigured, match=r"pip install 'kagura-kernel\[openai\]'"):
        await all_events(brain, a_turn(ToolLog()))


async def test_a_tool_call_is_not_silence():
    log = ToolLog(wait=1.0)
    with OpenAIServer([calls("echo", ECHO), says("ok")]) as server:
        assert (await done_of(brain_at(server, silence=0.5), a_turn(log))).text == "ok"


@pytest.mark.parametrize("step", [Silence(), says("word " * 400, delay=0.05)])
async def test_cancelled_while_the_model_thinks_or_speaks_nothing_is_left(step):
    with OpenAIServer([step]) as server:
        run = asyncio.create_task(all_events(brain_at(server), a_turn(ToolLog())))
        async with asyncio.timeout(60):
            while not server.turns:  # noqa: ASYNC110 - what a thread has seen, which knows no events
                await asyncio.sleep(0.01)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert asyncio.all_tasks() == {asyncio.current_task()}
