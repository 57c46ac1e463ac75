"""A model on the loopback that speaks the OpenAI-compatible APIs (chat completions, responses), from a script.

What runs against OpenAI, Ollama, LM Studio or vLLM runs against it without the internet::

    with OpenAIServer([calls("bash", {"command": "ls"}), says("Three files.")]) as server:
        endpoint = server.url  # http://127.0.0.1:…/v1

Scripts are those of `testing.model_script`. It runs in threads of its own and listens on 127.0.0.1 at a free port. It
keeps what it was sent, never a key.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

from kagura_kernel.testing.loopback_listener import OwnedListener
from tests.support.model_script import Calls, ModelTurn, Refusal, Request, Says, Script
from tests.support.scripted_server import ScriptedHandler, ScriptedServer

_PIECE = 24  # characters of text in one chunk

_ERRORS = {
    400: ("invalid_request_error", "the request is not valid"),
    401: ("invalid_request_error", "Incorrect API key provided"),
    403: ("invalid_request_error", "this key may not use that"),
    404: ("invalid_request_error", "the model does not exist"),
    429: ("requests", "Rate limit reached"),
}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}

TOO_LONG = Refusal(400, message="This model's maximum context length is 4096 tokens. Please reduce the length.")
"""What a service says to a conversation that does not fit into its model's window."""

UNFINISHED = "unfinished"
"""A `ModelTurn.stop_reason` of a stream that ends in good order and never says why."""


def error_body(refusal: Refusal) -> dict[str, Any]:
    """The JSON of an error answer."""
    kind, text = _ERRORS.get(refusal.status, ("server_error", "The server had an error"))
    code = "context_length_exceeded" if refusal == TOO_LONG else _CODES.get(refusal.status)
    return {"error": {"message": refusal.message or text, "type": kind, "param": None, "code": code}}


def completion(turn: ModelTurn, request: Request) -> dict[str, Any]:
    """The whole answer, for a request that did not ask for a stream."""
    message: dict[str, Any] = {"role": "assistant", "content": _text(turn) or None}
    if asked := _calls(turn):
        message["tool_calls"] = asked
    choice = {"index": 0, "message": message, "finish_reason": _reason(turn)}
    return {**_head(request, "chat.completion"), "choices": [choice], "usage": usage(turn)}


def chunks(turn: ModelTurn, request: Request, *, tells_usage: bool) -> list[dict[str, Any]]:
    """The answer as its chunks, without the `[DONE]` behind them.

    Args:
        turn: What is answered.
        request: What was asked; its model is named in every chunk.
        tells_usage: Whether the tokens are told at all. A request has to ask for them, too.
    """
    head = _head(request, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": reason}]}

    found = [chunk({"role": "assistant", "content": ""})]
    for block in turn.blocks:
        if isinstance(block, Says):
            found += [chunk({"content": piece}) for piece in _pieces(block.text)]
    for index, call in enumerate(_calls(turn)):
        arguments = call["function"].pop("arguments")
        found.append(chunk({"tool_calls": [{**call, "index": index}]}))
        found += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in _pieces(arguments)
        ]
    if turn.stop_reason != UNFINISHED:
        found.append(chunk({}, _reason(turn)))
    if tells_usage and (request.get("stream_options") or {}).get("include_usage"):
        found.append({**head, "choices": [], "usage": usage(turn)})
    return found


def usage(turn: ModelTurn) -> dict[str, Any]:
    """Tokens as these services count them: the input with what came from the cache."""
    read = turn.input_tokens + turn.cache_read_tokens + turn.cache_write_tokens
    return {
        "prompt_tokens": read,
        "completion_tokens": turn.output_tokens,
        "total_tokens": read + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cache_read_tokens},
    }


def tool_answers(request: Request) -> list[str]:
    found: list[str] = []
    for message in reversed(request.get("messages", [])):
        if message["role"] != "tool":
            break
        found.append(str(message["content"]))
    return found[::-1]


def tool_names(request: Request) -> list[str]:
    return [str(tool["function"]["name"]) for tool in request.get("tools", [])]


def _head(request: Request, kind: str) -> dict[str, Any]:
    model = request.get("model", "scripted")
    return {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": kind, "created": 1_700_000_000, "model": model}


def _text(turn: ModelTurn) -> str:
    return "".join(block.text for block in turn.blocks if isinstance(block, Says))


def _calls(turn: ModelTurn) -> list[dict[str, Any]]:
    return [_call(block) for block in turn.blocks if isinstance(block, Calls)]


def _call(call: Calls) -> dict[str, Any]:
    # A model may write what is no JSON at all; a script says so with this one argument.
    arguments = call.arguments["(raw)"] if "(raw)" in call.arguments else json.dumps(dict(call.arguments))
    name = {"name": call.name, "arguments": arguments}
    return {"id": call.id or f"call_{secrets.token_hex(12)}", "type": "function", "function": name}


def _reason(turn: ModelTurn) -> str:
    named = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
    return named.get(turn.reason, turn.reason)


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def as_chat(request: Request) -> dict[str, Any]:
    """The request as the chat API would have it, so that one script serves both."""
    messages: list[dict[str, Any]] = []
    if instructions := request.get("instructions"):
        messages.append({"role": "system", "content": instructions})
    for item in request.get("input", []):
        message = _message(item)
        # One answer may be several items.
        if message and not (messages and message["role"] == messages[-1]["role"] == "assistant"):
            messages.append(message)
    tools = [{"type": "function", "function": {"name": name}} for name in offered(request)]
    return {**request, "messages": messages, "tools": tools}


def offered(request: Request) -> list[str]:
    """Names of all the tools that the request offers to the model, those of the service itself by their type."""
    return [name for name, _ in _tools(request)]


def stream_events(turn: ModelTurn, request: Request) -> list[dict[str, Any]]:
    answer = f"resp_{secrets.token_hex(12)}"
    found: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": answer}}]
    for index, block in enumerate(turn.blocks):
        item = _item(block, request)
        if isinstance(block, Says):
            found.append({"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}})
            found += [
                {"type": "response.output_text.delta", "item_id": item["id"], "output_index": index, "delta": piece}
                for piece in _pieces(block.text)
            ]
        found.append({"type": "response.output_item.done", "output_index": index, "item": item})
    found.append({"type": "response.completed", "response": {"id": answer, "usage": _usage(turn)}})
    return found


def _tools(request: Request) -> Iterator[tuple[str, str]]:
    """Each tool's name, and the namespace that it is in."""
    for tool in request.get("tools", []):
        if tool.get("type") == "namespace":
            yield from ((str(one["name"]), str(tool["name"])) for one in tool.get("tools", []))
        else:
            yield str(tool.get("name") or tool.get("type")), ""


def _message(item: Mapping[str, Any]) -> dict[str, Any] | None:
    match item.get("type"):
        case "message" | None:
            content = item.get("content", "")
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            return {"role": item.get("role"), "content": text}
        case "function_call":
            return {"role": "assistant", "content": ""}
        case "function_call_output":
            return {"role": "tool", "content": _output(item.get("output", "")), "tool_call_id": item.get("call_id")}
        case _:
            return None


def _output(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output)


def _item(block: Says | Calls, request: Request) -> dict[str, Any]:
    if isinstance(block, Says):
        content = [{"type": "output_text", "text": block.text, "annotations": []}]
        named = f"msg_{secrets.token_hex(12)}"
        return {"type": "message", "id": named, "role": "assistant", "status": "completed", "content": content}
    called = block.id or f"call_{secrets.token_hex(12)}"
    name, namespace = _full_name(block.name, request)
    call = {"type": "function_call", "id": f"fc_{called}", "call_id": called, "name": name}
    return {**call, **({"namespace": namespace} if namespace else {}), "arguments": json.dumps(dict(block.arguments))}


def _full_name(name: str, request: Request) -> tuple[str, str]:
    known = list(_tools(request))
    exact = next((one for one in known if one[0] == name), None)
    return exact or next((one for one in known if one[0].endswith(f"__{name}")), (name, ""))


def _usage(turn: ModelTurn) -> dict[str, Any]:
    read = turn.input_tokens + turn.cache_read_tokens + turn.cache_write_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": turn.cache_read_tokens},
        "output_tokens": turn.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + turn.output_tokens,
    }


class OpenAIServer(ScriptedServer):
    """A scripted chat-completions API; a context manager that may be entered once."""

    def __init__(
        self,
        script: Script = (),
        *,
        key: str = "",
        models: Sequence[str] = ("scripted",),
        tells_usage: bool = True,
        moved_to: str = "",
    ) -> None:
        """A server that is not running yet.

        Args:
            script: What to answer; when a list is used up, the next request gets a 400 that says so.
            key: The only key that is accepted; empty accepts any and none, as a server on one's own machine does.
            models: What it says that it has.
            tells_usage: Whether it tells how many tokens were used.
            moved_to: Where it sends whoever asks for an answer, instead of answering; empty for nowhere.
        """
        super().__init__(script)
        self.models = tuple(models)
        self.tells_usage = tells_usage
        self.moved_to = moved_to
        self._key = key

    @property
    def url(self) -> str:
        """The base URL, with the `/v1` that such services have."""
        return f"{super().url}/v1"

    def listen(self) -> OwnedListener[OpenAIServer]:
        return OwnedListener(self, _Handler)

    def admit(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers carries an accepted key."""
        return self._key in ("", headers.get("authorization", "").removeprefix("Bearer "))


class _Handler(ScriptedHandler):
    server: OwnedListener[OpenAIServer]
    stream_headers: ClassVar = {"transfer-encoding": "chunked"}

    def got(self) -> None:
        if not self.server.owner.admit(self.record({})):
            self.refuse(Refusal(401))
        elif urlsplit(self.path).path == "/v1/models":
            self.send_json(200, {"object": "list", "data": [{"id": name} for name in self.server.owner.models]})
        else:
            self.refuse(Refusal(404, message="there is nothing here"))

    def posted(self, body: Mapping[str, Any], size: int) -> None:
        del size
        path = urlsplit(self.path).path
        responses = path == "/v1/responses"
        asked = as_chat(body) if responses else body
        headers = self.record(asked)
        if self.server.owner.moved_to:
            self.send(307, b"", {"location": self.server.owner.moved_to})
        elif not self.server.owner.admit(headers):
            self.refuse(Refusal(401))
        elif path != "/v1/chat/completions" and not responses:
            self.refuse(Refusal(404, message="there is nothing here"))
        else:
            self.give(self.server.owner.answer(asked), body)

    def message(self, turn: ModelTurn, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return completion(turn, body)

    def error(self, refusal: Refusal) -> Mapping[str, Any]:
        return error_body(refusal)

    def pieces(self, turn: ModelTurn, body: Mapping[str, Any]) -> Sequence[str]:
        if "input" in body:
            return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in stream_events(turn, body)]
        told = self.server.owner.tells_usage
        return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks(turn, body, tells_usage=told)]

    def write(self, text: str) -> None:
        data = text.encode()
        super().write(f"{len(data):x}\r\n{text}\r\n")

    def end_stream(self) -> None:
        self.write("data: [DONE]\n\n")
        self.write("")
