import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.model_script import (
    BrokenStream,
    Calls,
    ModelTurn,
    Refusal,
    Says,
    Silence,
    by_conversation,
    calls,
    offered_tools,
    says,
    tool_results,
)
from tests.support.model_server import ModelServer
from tests.support.openai_server import TOO_LONG, OpenAIServer, tool_answers

TOOLS = [{"name": "mcp__kagura__bash"}, {"name": "mcp__kagura__grep"}]


def ask(
    server: ModelServer, body: Any = None, *, path: str = "/v1/messages?beta=true", method: str = "POST", key: str = "k"
) -> tuple[int, dict[str, str], bytes]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body or {"stream": True, "messages": []}).encode()
        connection.request(method, path, data if method == "POST" else None, {"x-api-key": key} if key else {})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def events_of(raw: bytes) -> Iterator[dict[str, Any]]:
    for chunk in raw.decode().split("\n\n"):
        if chunk:
            name, data = chunk.split("\n", 1)
            event = json.loads(data.removeprefix("data: "))
            assert name == f"event: {event['type']}"
            yield event


def test_a_turn_is_streamed_as_the_service_streams_it():
    turn = ModelTurn((Says("A text that needs more than one piece."), Calls("bash", {"command": "ls"})))
    with ModelServer([turn]) as server:
        status, headers, raw = ask(server, {"stream": True, "model": "m-1", "messages": [], "tools": TOOLS})
    events = list(events_of(raw))
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert events[0]["message"]["model"] == "m-1"
    assert events[0]["message"]["usage"] == {
        "input_tokens": 120,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 300,
        "output_tokens": 1,
    }
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    texts = [delta["text"] for delta in deltas if delta["type"] == "text_delta"]
    assert len(texts) > 1
    assert "".join(texts) == "A text that needs more than one piece."
    arguments = "".join(delta["partial_json"] for delta in deltas if delta["type"] == "input_json_delta")
    assert json.loads(arguments) == {"command": "ls"}
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert starts[1]["name"] == "mcp__kagura__bash"
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["output_tokens"] == 40
    assert events[-1]["type"] == "message_stop"


def test_without_a_stream_the_message_comes_whole():
    with ModelServer([says("Hi.", output_tokens=7)]) as server:
        _, _, raw = ask(server, {"messages": [{"role": "user", "content": "?"}], "max_tokens": 100})
    message = json.loads(raw)
    assert message["content"] == [{"type": "text", "text": "Hi."}]
    assert (message["stop_reason"], message["usage"]["output_tokens"]) == ("end_turn", 7)


def test_the_script_is_used_up_in_order_and_then_says_so():
    with ModelServer([says("one"), lambda request: says(f"two of {len(request['messages'])}")]) as server:
        answers = [ask(server, {"messages": []}) for _ in range(3)]
    assert [json.loads(raw)["content"][0]["text"] for _, _, raw in answers[:2]] == ["one", "two of 0"]
    assert answers[2][0] == 400
    assert b"used up" in answers[2][2]


def test_an_answer_can_depend_on_tool_results():
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a.csv"}]},
        {"type": "tool_result", "tool_use_id": "2", "content": "no such file", "is_error": True},
    ]
    body = {"messages": [{"role": "user", "content": results}], "tools": TOOLS}
    assert tool_results(body) == [("a.csv", False), ("no such file", True)]
    assert tool_results({"messages": [{"role": "user", "content": "words"}]}) == []
    assert offered_tools(body) == ["mcp__kagura__bash", "mcp__kagura__grep"]


def test_conversations_are_told_apart_by_what_the_person_said():
    script = by_conversation({"cats": [calls("bash"), says("Cats.")], "dogs": [says("Dogs.")]})
    person = {"role": "user", "content": [{"type": "text", "text": "about cats"}]}
    result = {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}
    assistant = {"role": "assistant", "content": "…"}
    note = {"role": "system", "content": "dogs"}
    assert script({"messages": [person, note]}) == calls("bash")
    assert script({"messages": [person, note, assistant, result]}) == says("Cats.")
    later = {"role": "user", "content": "and dogs"}
    assert script({"messages": [person, assistant, result, assistant, later]}) == says("Dogs.")
    assert isinstance(script({"messages": [{"role": "user", "content": "fish"}]}), Refusal)


@pytest.mark.parametrize(("status", "kind"), [(401, "authentication_error"), (529, "overloaded_error"), (500, "api_")])
def test_a_refusal_is_an_error_of_the_service(status, kind):
    with ModelServer([Refusal(status, retry_after=2)]) as server:
        answered, headers, raw = ask(server)
    assert answered == status
    assert headers["retry-after"] == "2"
    assert kind in json.loads(raw)["error"]["type"]


def test_a_broken_stream_ends_before_its_end():
    with ModelServer([BrokenStream(says("word " * 50))]) as server:
        status, _, raw = ask(server)
    events = list(events_of(raw))
    assert status == 200
    assert events
    assert events[-1]["type"] == "content_block_delta"


def test_silence_ends_when_the_server_closes():
    failures: list[BaseException] = []

    def client(server: ModelServer) -> None:
        try:
            ask(server)
        except (OSError, http.client.HTTPException) as error:
            failures.append(error)

    with ModelServer([Silence()]) as server:
        thread = threading.Thread(target=client, args=(server,))
        thread.start()
        while not server.turns:
            time.sleep(0.01)
        assert thread.is_alive()
    thread.join(60)
    assert len(failures) == 1


def test_a_slow_turn_does_not_hold_up_the_closing():
    with ModelServer([says("word " * 1000, delay=600)]) as server:
        thread = threading.Thread(target=lambda: ask(server))
        thread.start()
        while not server.turns:
            time.sleep(0.01)
    thread.join(60)
    assert not thread.is_alive()


def test_no_key_and_a_wrong_key_are_refused_and_use_up_nothing():
    with ModelServer([says("ok")], key="right") as server:
        assert [ask(server, key=key)[0] for key in ("", "wrong", "right")] == [401, 401, 200]


def test_it_keeps_what_it_was_sent_but_never_a_key():
    with ModelServer([says("ok")]) as server:
        ask(server, {"system": [{"text": "You"}, {"text": "are."}], "messages": [], "stream": True}, key="sk-secret")
    (request,) = server.turns
    assert request.system == "You\nare."
    assert request.headers["x-api-key"] == "(hidden)"
    assert "sk-secret" not in repr(server.requests)


def test_calls_beside_the_conversation_use_up_nothing():
    with ModelServer([says("the script")]) as server:
        assert ask(server, method="HEAD", path="/")[0] == 200
        assert ask(server, method="GET", path="/v1/models")[0] == 200
        counted = json.loads(ask(server, {"messages": []}, path="/v1/messages/count_tokens?beta=true")[2])
        quota = {"model": "small", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}
        assert ask(server, quota)[0] == 200
        assert ask(server, {"events": []}, path="/api/event_logging/batch")[0] == 200
        assert server.turns == []
        assert b"the script" in ask(server, {"messages": []})[2]
    assert counted["input_tokens"] > 0
    assert [request.side for request in server.requests] == [True] * 5 + [False]


def test_a_body_that_is_no_json_is_refused():
    with ModelServer([says("ok")]) as server:
        assert ask(server, b"{nonsense")[0] == 400


def test_many_clients_at_once_are_answered():
    with ModelServer(lambda _request: says("ok", delay=0.01)) as server:
        statuses: list[int] = []
        threads = [threading.Thread(target=lambda: statuses.append(ask(server)[0])) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert statuses == [200] * 30


def test_it_leaves_no_thread_behind():
    before = threading.active_count()
    with ModelServer([says("ok")]) as server:
        ask(server)
    assert threading.active_count() == before


def test_outside_its_with_statement_it_has_no_address():
    with pytest.raises(RuntimeError, match="with"):
        _ = ModelServer().url


BOTH = ModelTurn((Says("A text that needs more than one piece."), Calls("bash", {"command": "ls"}, id="call-1")))
ASKED = {"model": "m-1", "messages": [{"role": "user", "content": "go"}]}


def ask_openai(
    server: OpenAIServer, body: Any = None, *, path: str = "/v1/chat/completions", method: str = "POST", key: str = "k"
) -> tuple[int, bytes]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body or ASKED).encode()
        connection.request(method, path, data if method == "POST" else None, {"authorization": f"Bearer {key}"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def events_of_openai(raw: bytes) -> list[Any]:
    found = [line.removeprefix("data: ") for line in raw.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(text) for text in found if text != "[DONE]"]


def test_a_turn_is_streamed_as_such_services_stream_it():
    with OpenAIServer([BOTH]) as server:
        status, raw = ask_openai(server, {**ASKED, "stream": True, "stream_options": {"include_usage": True}})
    chunks = events_of_openai(raw)
    assert status == 200
    assert raw.endswith(b"data: [DONE]\n\n")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "A text that needs more than one piece."
    parts = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert parts[0]["id"] == "call-1"
    assert json.loads("".join(part["function"].get("arguments", "") for part in parts)) == {"command": "ls"}
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["prompt_tokens"] == 1420


def test_without_a_stream_the_answer_comes_whole_and_without_being_asked_no_usage_is_streamed():
    with OpenAIServer([BOTH, BOTH]) as server:
        whole = json.loads(ask_openai(server)[1])
        streamed = events_of_openai(ask_openai(server, {**ASKED, "stream": True})[1])
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "bash"
    assert whole["usage"]["completion_tokens"] == 40
    assert all("usage" not in chunk for chunk in streamed)


def test_the_responses_api_is_spoken_with_the_same_script():
    asked = {
        "model": "m-1",
        "stream": True,
        "instructions": "be kind",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I ask."}]},
            {"type": "function_call", "call_id": "c", "name": "echo", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "heard"},
        ],
        "tools": [{"type": "namespace", "name": "n", "tools": [{"name": "bash"}]}, {"type": "web_search"}],
    }
    with OpenAIServer(by_conversation({"go": [says("first"), BOTH]})) as server:
        events = events_of_openai(ask_openai(server, asked, path="/v1/responses")[1])
        (request,) = server.turns
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in items] == ["message", "function_call"]
    assert (items[1]["name"], items[1]["namespace"]) == ("bash", "n")
    assert events[-1]["response"]["usage"]["input_tokens"] == 1420
    assert [message["role"] for message in request.body["messages"]] == ["system", "user", "assistant", "tool"]
    assert tool_answers(request.body) == ["heard"]


@pytest.mark.parametrize(
    ("refusal", "code"),
    [(Refusal(401), "invalid_api_key"), (TOO_LONG, "context_length_exceeded"), (Refusal(500), None)],
)
def test_an_error_is_told_as_such_services_tell_it(refusal, code):
    with OpenAIServer([refusal]) as server:
        status, raw = ask_openai(server)
    assert status == refusal.status
    assert json.loads(raw)["error"]["code"] == code


def test_a_broken_stream_ends_without_its_end():
    with OpenAIServer([BrokenStream(BOTH)]) as server, pytest.raises(http.client.IncompleteRead):
        ask_openai(server, {**ASKED, "stream": True})


def test_a_wrong_key_is_refused_and_no_key_is_kept():
    with OpenAIServer([says("ok")], key="right") as server:
        assert ask_openai(server, key="wrong")[0] == 401
        assert ask_openai(server, key="right")[0] == 200
        assert [request.headers["authorization"] for request in server.requests] == ["(hidden)", "(hidden)"]


def test_what_it_has_and_what_it_has_not_is_told():
    with OpenAIServer(models=("a", "b")) as server:
        assert [one["id"] for one in json.loads(ask_openai(server, path="/v1/models", method="GET")[1])["data"]] == [
            "a",
            "b",
        ]
        assert ask_openai(server, path="/v1/else", method="GET")[0] == 404
        assert ask_openai(server, path="/v1/else")[0] == 404
        assert ask_openai(server, b"no json")[0] == 400
        assert b"used up" in ask_openai(server)[1]
