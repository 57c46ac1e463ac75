"""Scripted answers as the OpenAI Responses API writes them, which Codex speaks; and its requests for scripts."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from kagura_kernel.testing.model_script import Calls, ModelTurn, Request, Says

_PIECE = 24  # characters of text in one event


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
    """The answer as its events."""
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


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
