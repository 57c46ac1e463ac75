"""What a scripted model answers: turns, faults, and ways to pick the next one.

A script is handed to `ModelServer`. It is a list of steps that are used up in order, or one callable that is asked
every time. A step is a `ModelTurn`, a fault, or a callable that looks at the request and returns one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kagura_kernel.testing.conformance.brain import Round


@dataclass(frozen=True, slots=True)
class Says:
    """A block of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Calls:
    """A block that asks for a tool; `name` as the model is offered it, or without the `mcp__…__` before it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class ModelTurn:
    blocks: tuple[Says | Calls, ...]  # Text and tool calls in their order
    input_tokens: int = 120  # Fresh input, as the API counts it: without what came from or went to a cache
    output_tokens: int = 40  # Tokens written
    cache_read_tokens: int = 1000  # Input read from a cache
    cache_write_tokens: int = 300  # Input written to a cache
    stop_reason: str = ""  # As the API says it; empty means `tool_use` if a tool is asked for, else `end_turn`
    delay: float = 0.0  # Seconds between two pieces of the stream

    @property
    def reason(self) -> str:
        """The stop reason to send."""
        if self.stop_reason:
            return self.stop_reason
        return "tool_use" if any(isinstance(block, Calls) for block in self.blocks) else "end_turn"


def turns_of(rounds: Sequence[Round], *, slow: float = 0.1) -> list[ModelTurn]:
    """The rounds of the brains' suite, with so many seconds between the pieces of a slow one."""
    return [
        ModelTurn(
            (*((Says(one.text),) if one.text else ()), *(Calls(*call) for call in one.calls)),
            delay=slow if one.slow else 0.0,
        )
        for one in rounds
    ]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP error in place of an answer, such as 401, 404, 429 or 529."""

    status: int  # The HTTP status
    retry_after: float | None = None  # Seconds, sent as header; None sends none
    message: str = ""  # The API's text; empty takes a usual one


@dataclass(frozen=True, slots=True)
class BrokenStream:
    """The stream ends in the middle of this turn, without a word."""

    turn: ModelTurn


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing comes until the client gives up or the server closes."""


Answer = ModelTurn | Refusal | BrokenStream | Silence
Request = Mapping[str, Any]
Step = Answer | Callable[[Request], Answer]
Script = Sequence[Step] | Callable[[Request], Answer]


def says(text: str, **figures: Any) -> ModelTurn:
    """A turn of plain text; `figures` are fields of `ModelTurn`."""
    return ModelTurn((Says(text),), **figures)


def calls(name: str, arguments: Mapping[str, Any] | None = None, *, first: str = "", **figures: Any) -> ModelTurn:
    """A turn that asks for one tool, after the text `first` if there is one."""
    before = (Says(first),) if first else ()
    return ModelTurn((*before, Calls(name, arguments or {})), **figures)


def by_conversation(talks: Mapping[str, Sequence[Step]]) -> Callable[[Request], Answer]:
    """A script for many conversations at once, in any order.

    The conversation is the first of `talks` whose key stands in one of the person's messages, the latest first; the
    step is the number of the model's answers since that message. Retries and resumed conversations get the right step.
    """

    def pick(request: Request) -> Answer:
        answered = 0
        for message in reversed(request.get("messages", [])):
            if message["role"] == "assistant":
                answered += 1
            if message["role"] != "user" or _holds_results(message):
                continue
            text = message_text(message)
            for key, steps in talks.items():
                if key in text and answered < len(steps):
                    step = steps[answered]
                    return step(request) if callable(step) else step
        return Refusal(400, message="no talk of the script fits this request")

    return pick


def message_text(message: Mapping[str, Any]) -> str:
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content if block.get("type") == "text")


def tool_results(request: Request) -> list[tuple[str, bool]]:
    """Text and error flag of every tool result in the request's last message, in their order."""
    messages = request.get("messages", [])
    content = messages[-1].get("content", "") if messages else ""
    if isinstance(content, str):
        return []
    return [
        (_result_text(block.get("content", "")), bool(block.get("is_error", False)))
        for block in content
        if block.get("type") == "tool_result"
    ]


def images_in(request: Request) -> list[tuple[str, str]]:
    """Where each image in the request stands, `tool_result` or `user`, and its bytes in base64; in their order."""
    found = []
    for message in request.get("messages", []):
        content = message["content"] if isinstance(message["content"], list) else []
        for block in content:
            inner = block.get("content") if block.get("type") == "tool_result" else None
            within = inner if isinstance(inner, list) else [block]
            where = "tool_result" if block.get("type") == "tool_result" else message["role"]
            found += [(where, part["source"]["data"]) for part in within if part.get("type") == "image"]
    return found


def offered_tools(request: Request) -> list[str]:
    return [tool["name"] for tool in request.get("tools", [])]


def _holds_results(message: Mapping[str, Any]) -> bool:
    content = message.get("content", "")
    return not isinstance(content, str) and any(block.get("type") == "tool_result" for block in content)


def _result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if part.get("type") == "text")
