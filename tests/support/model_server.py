"""A model on the loopback: it speaks the Anthropic Messages API and answers from a script.

With `ANTHROPIC_BASE_URL` set to its `url` and any `ANTHROPIC_API_KEY`, the real Claude program runs end to end without
the internet::

    with ModelServer([calls("bash", {"command": "ls"}), says("Three files.")]) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "dummy"}

It runs in threads of its own and listens on 127.0.0.1 at a free port. It keeps what it was sent, never a key.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

from kagura_kernel.testing.loopback_listener import OwnedListener
from tests.support.model_script import Calls, ModelTurn, Refusal, Says, Script, says
from tests.support.scripted_server import ScriptedHandler, ScriptedServer

_PIECE = 24  # characters of text in one delta, near what the real service sends

_ERRORS = {
    400: ("invalid_request_error", "the request is not valid"),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "this key may not use that"),
    404: ("not_found_error", "there is no such model"),
    429: ("rate_limit_error", "too many requests"),
    529: ("overloaded_error", "overloaded"),
}


def error_body(refusal: Refusal) -> dict[str, Any]:
    """The JSON of an error answer."""
    kind, text = _ERRORS.get(refusal.status, ("api_error", "internal server error"))
    return {"type": "error", "error": {"type": kind, "message": refusal.message or text}}


def message_body(turn: ModelTurn, request: Mapping[str, Any]) -> dict[str, Any]:
    """The whole message, for a request that did not ask for a stream."""
    return {
        **_message_head(turn, request),
        "content": [_block(block, request) for block in turn.blocks],
        "stop_reason": turn.reason,
        "usage": {**_input_usage(turn), "output_tokens": turn.output_tokens},
    }


def stream_events(turn: ModelTurn, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The message as its events, from `message_start` to `message_stop`."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": _message_head(turn, request)}]
    for index, block in enumerate(turn.blocks):
        whole = _block(block, request)
        if isinstance(block, Says):
            start: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block.text)]
        else:
            start = {**whole, "input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": piece} for piece in _pieces(json.dumps(whole["input"]))
            ]
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": turn.reason, "stop_sequence": None},
            "usage": {**_input_usage(turn), "output_tokens": turn.output_tokens},
        }
    )
    events.append({"type": "message_stop"})
    return events


def _message_head(turn: ModelTurn, request: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "scripted"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_input_usage(turn), "output_tokens": 1},
    }


def _input_usage(turn: ModelTurn) -> dict[str, int]:
    return {
        "input_tokens": turn.input_tokens,
        "cache_read_input_tokens": turn.cache_read_tokens,
        "cache_creation_input_tokens": turn.cache_write_tokens,
    }


def _block(block: Says | Calls, request: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(block, Says):
        return {"type": "text", "text": block.text}
    return {
        "type": "tool_use",
        "id": block.id or f"toolu_{secrets.token_hex(12)}",
        "name": _full_name(block.name, request),
        "input": dict(block.arguments),
    }


def _full_name(name: str, request: Mapping[str, Any]) -> str:
    offered = [str(tool["name"]) for tool in request.get("tools", [])]
    if name in offered:
        return name
    return next((full for full in offered if full.endswith(f"__{name}")), name)


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)] or [""]


class ModelServer(ScriptedServer):
    """A scripted Messages API; a context manager that may be entered once. Its `url` is for `ANTHROPIC_BASE_URL`."""

    def __init__(self, script: Script = (), *, key: str = "") -> None:
        """A server that is not running yet.

        Args:
            script: What to answer; when a list is used up, the next request gets a 400 that says so.
            key: The only key or token that is accepted; empty accepts any, and none is a 401 always.
        """
        super().__init__(script)
        self._key = key

    def listen(self) -> OwnedListener[ModelServer]:
        return OwnedListener(self, _Handler)

    def admit(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers carries an accepted key."""
        sent = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        return bool(sent) and self._key in ("", sent)


class _Handler(ScriptedHandler):
    server: OwnedListener[ModelServer]
    stream_headers: ClassVar = {"connection": "close", "request-id": "req_scripted"}

    def got(self) -> None:
        self.record({}, side=True)
        self.send_json(200, {"data": [], "has_more": False})

    def posted(self, body: Mapping[str, Any], size: int) -> None:
        path = urlsplit(self.path).path
        side = path != "/v1/messages" or _beside_the_conversation(body)
        if not self.server.owner.admit(self.record(body, side=side)):
            self.refuse(Refusal(401))
        elif path == "/v1/messages/count_tokens":
            self.send_json(200, {"input_tokens": max(1, size // 4)})
        elif path != "/v1/messages":
            self.send_json(200, {})
        else:
            self.give(says("ok", output_tokens=1) if side else self.server.owner.answer(body), body)

    def message(self, turn: ModelTurn, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return message_body(turn, body)

    def error(self, refusal: Refusal) -> Mapping[str, Any]:
        return error_body(refusal)

    def pieces(self, turn: ModelTurn, body: Mapping[str, Any]) -> Sequence[str]:
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in stream_events(turn, body)]


def _beside_the_conversation(body: Mapping[str, Any]) -> bool:
    """Whether the program asks for its own sake (a quota probe, a title), which no script should answer."""
    return not body.get("stream") and not body.get("tools") and body.get("max_tokens") == 1
