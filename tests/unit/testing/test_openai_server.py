from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.model_script import BrokenStream, Calls, ModelTurn, Refusal, Says, by_conversation, says
from tests.support.openai_server import TOO_LONG, OpenAIServer, tool_answers

BOTH = ModelTurn((Says("A text that needs more than one piece."), Calls("bash", {"command": "ls"}, id="call-1")))
ASKED = {"model": "m-1", "messages": [{"role": "user", "content": "go"}]}


def ask(
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


def events_of(raw: bytes) -> list[Any]:
    found = [line.removeprefix("data: ") for line in raw.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(text) for text in found if text != "[DONE]"]


def test_a_turn_is_streamed_as_such_services_stream_it():
    with OpenAIServer([BOTH]) as server:
        status, raw = ask(server, {**ASKED, "stream": True, "stream_options": {"include_usage": True}})
    chunks = events_of(raw)
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
        whole = json.loads(ask(server)[1])
        streamed = events_of(ask(server, {**ASKED, "stream": True})[1])
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
        events = events_of(ask(server, asked, path="/v1/responses")[1])
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
        status, raw = ask(server)
    assert status == refusal.status
    assert json.loads(raw)["error"]["code"] == code


def test_a_broken_stream_ends_without_its_end():
    with OpenAIServer([BrokenStream(BOTH)]) as server, pytest.raises(http.client.IncompleteRead):
        ask(server, {**ASKED, "stream": True})


def test_a_wrong_key_is_refused_and_no_key_is_kept():
    with OpenAIServer([says("ok")], key="right") as server:
        assert ask(server, key="wrong")[0] == 401
        assert ask(server, key="right")[0] == 200
        assert [request.headers["authorization"] for request in server.requests] == ["(hidden)", "(hidden)"]


def test_what_it_has_and_what_it_has_not_is_told():
    with OpenAIServer(models=("a", "b")) as server:
        assert [one["id"] for one in json.loads(ask(server, path="/v1/models", method="GET")[1])["data"]] == ["a", "b"]
        assert ask(server, path="/v1/else", method="GET")[0] == 404
        assert ask(server, path="/v1/else")[0] == 404
        assert ask(server, b"no json")[0] == 400
        assert b"used up" in ask(server)[1]
