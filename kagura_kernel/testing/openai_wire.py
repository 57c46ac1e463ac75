"""Scripted answers as services with an OpenAI-compatible API write them: one JSON object, or its stream of chunks."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from kagura_kernel.testing.model_script import Calls, ModelTurn, Refusal, Request, Says

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
    """The answers of tools at the end of a request, in their order."""
    found: list[str] = []
    for message in reversed(request.get("messages", [])):
        if message["role"] != "tool":
            break
        found.append(str(message["content"]))
    return found[::-1]


def tool_names(request: Request) -> list[str]:
    """Names of the tools that the request offers to the model."""
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
