"""What a coding agent printed, in our words. Reads texts, acts on nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kagura_kernel.brain.kagura_brain_programs import NAME
from kagura_kernel.brain.openai_compatible import without
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainError, BrainLost, BrainNotConfigured, BrainRefused

_STATUS = re.compile(
    r"(?:status|error|code)\D{0,12}\b([45]\d\d)\b|\b([45]\d\d) (?:Unauthorized|Too Many|Forbidden|Not Found)"
)
_FIRST_ERROR = 400

# To some models Codex offers every tool by way of programs that it runs for them, which is a hand and stays off.
_CODE_MODE = "Code Mode is unavailable"
_NO_DIRECT_TOOLS = (
    "Codex offers this model its tools only through programs of its own, which stay off here. Choose another model "
    "with `--model`, or use `--brain pydantic_ai`."
)

_STOPPED: Mapping[str, Literal["budget", "turns"]] = {"error_max_budget_usd": "budget", "error_max_turns": "turns"}


@dataclass(frozen=True, slots=True)
class Printed:
    """The end of a program.

    Attributes:
        code: Its exit code.
        out: Its standard output.
        err: Its standard error.
    """

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Said:
    """What an agent said in the end.

    Attributes:
        text: The answer.
        usage: Tokens of all its rounds.
        model: The model that answered; empty where it does not say.
        turns: How often it went round; 0 where it does not say.
        reported_usd: What it says it cost; None if it does not say.
        stopped: Why it ended early.
    """

    text: str
    usage: Usage
    model: str = ""
    turns: int = 0
    reported_usd: float | None = None
    stopped: Literal["", "budget", "turns"] = ""


def read_claude(printed: Printed, secrets: Sequence[str]) -> Said:
    """The one JSON object of `claude --print --output-format=json`.

    Raises:
        BrainError: it could not think; why, without the secrets.
    """
    found = _last_object(printed.out, "result")
    if found is None:
        raise _lost(printed, secrets)
    stopped = _STOPPED.get(str(found.get("subtype")))
    if found.get("is_error") and stopped is None:
        status = found.get("api_error_status")
        raise _refused(status if isinstance(status, int) else None, str(found.get("result") or ""), secrets)
    used = found.get("usage") or {}
    read, written = int(used.get("cache_read_input_tokens") or 0), int(used.get("cache_creation_input_tokens") or 0)
    hour = int((used.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0)
    cost = found.get("total_cost_usd")
    return Said(
        text=str(found.get("result") or ""),
        usage=Usage(
            int(used.get("input_tokens") or 0) + read + written,
            int(used.get("output_tokens") or 0),
            read,
            written,
            hour,
        ),
        model=next(iter(found.get("modelUsage") or {}), ""),
        turns=int(found.get("num_turns") or 0),
        reported_usd=float(cost) if isinstance(cost, (int, float)) else None,
        stopped=stopped or "",
    )


def read_codex(printed: Printed, secrets: Sequence[str], *, tools: bool = False) -> Said:
    """The events, one a line, of `codex exec --json`.

    Args:
        printed: What it printed.
        secrets: Texts that must not stand in an error.
        tools: Whether it was given tools, without which its answer is worth nothing.

    Raises:
        BrainError: it could not think; why, without the secrets.
    """
    text, usage, finished, failure = "", Usage(), False, ""
    for event in _objects(printed.out):
        match event:
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(said)}}:
                text = said
            case {"type": "item.completed", "item": {"type": "error", "message": str(message)}} if (
                tools and _CODE_MODE in message
            ):
                raise BrainRefused(NAME, _NO_DIRECT_TOOLS)
            case {"type": "item.started" | "item.completed", "item": {"type": "command_execution" | "file_change"}}:
                raise BrainLost(NAME, "Codex used a tool of its own, which should have been off")
            case {"type": "turn.completed", "usage": dict(used)}:
                usage += _codex_usage(used)
                finished = True
            case {"type": "turn.failed", "error": {"message": str(message)}} | {
                "type": "error",
                "message": str(message),
            }:
                failure = message
    if finished:
        return Said(text, usage)
    if failure:
        raise _refused(_status_in(failure), failure, secrets)
    raise _lost(printed, secrets)


def _codex_usage(used: Mapping[str, Any]) -> Usage:
    read = int(used.get("cached_input_tokens") or 0)
    written = int(used.get("cache_write_input_tokens") or 0)
    return Usage(int(used.get("input_tokens") or 0), int(used.get("output_tokens") or 0), read, written)


def _objects(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue  # a word of the program's beside its events
        if isinstance(value, dict):
            found.append(value)
    return found


def _last_object(text: str, kind: str) -> dict[str, Any] | None:
    return next((one for one in reversed(_objects(text)) if one.get("type") == kind), None)


def _status_in(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1] or found[2]) if found else None


def _refused(status: int | None, said: str, secrets: Sequence[str]) -> BrainError:
    said = without(secrets, said)
    advice = {
        401: "the sign-in or the key is not accepted (401). Sign in again with the program itself.",
        403: "this account may not do that (403). Ask whoever gave it to you.",
        404: "there is no such model, or this account may not use it (404). Choose another with `--model`.",
        429: "too many requests, or the account's limit is reached (429). Wait a little and run the cell again.",
        529: "the service is overloaded (529). Wait a little and run the cell again.",
    }.get(status or 0)
    if status is None and re.search(r"log ?in|sign.?in|API key", said, re.IGNORECASE):
        return BrainNotConfigured(f"The {NAME} brain is not signed in: {said}.")
    answered = f"the service answered {status}: {said}" if status and status >= _FIRST_ERROR else said
    return BrainRefused(NAME, advice or answered, status)


def _lost(printed: Printed, secrets: Sequence[str]) -> BrainLost:
    said = without(secrets, printed.err.strip() or printed.out.strip())
    return BrainLost(NAME, f"its program ended with exit code {printed.code}" + (f" ({said})" if said else ""))
