"""Scripted answers as the Messages API writes them: one JSON message, or its stream of events."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from kagura_kernel.testing.model_script import Calls, ModelTurn, Refusal, Says

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
