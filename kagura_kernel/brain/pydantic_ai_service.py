"""One model behind an OpenAI-compatible API: a conversation of ours goes in, its words come out as they are written.

The connection takes nothing from the environment but whom to trust (`SSL_CERT_FILE`), no proxy and no credentials of
other programs, and follows no redirect: a key goes where it was configured to go.

Making a conversation fit into a model's window. Pure: it counts bytes and leaves things out.

The system prompt and the task always stay. What goes first are the oldest answers of tools, then the oldest rounds as a
whole, then the middle of the newest answers. So a call never stands without its answer, which services refuse.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Self

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import Provider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.providers.vllm import VLLMProvider
from pydantic_ai.tools import ToolDefinition

from kagura_kernel.brain.openai_compatible import NAME, Endpoint
from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured
from kagura_kernel.domain.images import Image
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.tools import ToolSpec

_SPARE = 0.75  # of the room is filled when something had to go, so that not every round begins differently
_LEAST_KEPT = 200  # bytes of an answer whose middle is cut out

FIRST_GUESS = 3.0
"""Bytes of UTF-8 in a token before a service has told: English has 4, code and Japanese about 3."""

_BOUNDS = (1.5, 6.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered."""

    call_id: str  # The call's id, as the model gave it
    tool: str  # The tool's name
    text: str  # What the model reads
    failed: bool = False  # Whether it is to be taken as a failure
    images: tuple[Image, ...] = ()  # What it looks at


@dataclass(frozen=True, slots=True)
class Exchange:
    """One round: what the model said and asked for, and what it was answered."""

    said: Any  # What the model said, as its library holds it
    size: int  # Bytes of it
    answers: tuple[Answer, ...] = ()  # What its calls were answered, in their order
    heard: tuple[str, ...] = ()  # What a person has said by then

    @property
    def whole(self) -> int:
        """Bytes of all of it."""
        return self.size + sum(map(_size, self.answers)) + sum(map(bytes_of, self.heard))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A conversation that was made to fit."""

    exchanges: tuple[Exchange, ...]  # What is left, oldest first
    dropped: int  # How many rounds are not there any more
    fits: bool  # Whether it fits; what cannot go is too much otherwise


def bytes_of(text: str) -> int:
    """How long a text is."""
    return len(text.encode("utf-8", "surrogatepass"))


def measured(sent: int, tokens: int) -> float:
    """Bytes in a token, as a service counted what it was sent; within what can be true."""
    least, most = _BOUNDS
    return min(most, max(least, sent / tokens)) if tokens > 0 else FIRST_GUESS


def room_in(window: int, per_token: float) -> int:
    """Bytes that may be sent into a window of so many tokens; the rest is for the answer."""
    return int((window - min(window // 4, 16_384)) * per_token)


def fit(exchanges: Sequence[Exchange], room: int) -> Fitted:
    """The exchanges within so many bytes, unchanged when they fit already.

    Args:
        exchanges: Oldest first.
        room: Bytes for all of them; may be negative.
    """
    left = list(exchanges)
    if _whole(left) <= room:
        return Fitted(tuple(left), 0, fits=True)
    wanted = int(room * _SPARE)
    _empty_old_answers(left, wanted)
    dropped = 0
    while len(left) > 1 and _whole(left) > wanted:
        # What a person has said stays, like the task.
        left[:2] = [replace(left[1], heard=(*left[0].heard, *left[1].heard))]
        dropped += 1
    if left and _whole(left) > room:
        left[-1] = _cut(left[-1], wanted)
    return Fitted(tuple(left), dropped, fits=_whole(left) <= room)


def _whole(exchanges: Sequence[Exchange]) -> int:
    return sum(exchange.whole for exchange in exchanges)


def _size(answer: Answer) -> int:
    return bytes_of(answer.text) + size_of(answer.images)


def size_of(images: Sequence[Image]) -> int:
    """How many bytes of text images are as long as, for a model."""
    return int(sum(image.tokens for image in images) * FIRST_GUESS)


def _empty_old_answers(exchanges: list[Exchange], room: int) -> None:
    """Put a note in place of answers, the oldest first; those of the last round stay."""
    over = _whole(exchanges) - room
    for number, exchange in enumerate(exchanges[:-1]):
        answers = list(exchange.answers)
        for place, answer in enumerate(answers):
            if over <= 0:
                break
            text = f"[An older answer of {_size(answer)} bytes was left out for lack of room.]"
            note = replace(answer, text=text, images=())
            if _size(note) < _size(answer):
                over -= _size(answer) - _size(note)
                answers[place] = note
        exchanges[number] = replace(exchange, answers=tuple(answers))


def _cut(exchange: Exchange, room: int) -> Exchange:
    """The same with the middle of its longest answers left out."""
    share = max(_LEAST_KEPT, (room - exchange.size) // max(1, len(exchange.answers)))
    return replace(exchange, answers=tuple(_without_middle(answer, share) for answer in exchange.answers))


def _without_middle(answer: Answer, room: int) -> Answer:
    size = _size(answer)
    if size <= room:
        return answer
    if answer.images:
        text = f"{answer.text}\n[Its images were left out for lack of room.]"
        return _without_middle(replace(answer, text=text, images=()), room)
    note = f"\n[… {size - room} bytes of {size} were left out here for lack of room …]\n"
    half = max(0, room - bytes_of(note)) // 2
    data = answer.text.encode("utf-8", "surrogatepass")
    head, tail = data[:half].decode("utf-8", "ignore"), data[size - half :].decode("utf-8", "ignore")
    return replace(answer, text=f"{head}{note}{tail}")


_CONNECT_SECONDS = 10.0
_LONGEST_ANSWER = 4_000_000  # characters; a model that repeats itself for ever is not waited for
_NO_KEY = "no-key-needed"  # the client insists on one, and it is not sent

_HEADERS = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A tool that the model asks for."""

    call_id: str  # As the model named the call
    tool: str  # The tool's name
    # What it is called with; None where the model wrote something that is no JSON object
    arguments: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Text as it is written; `whole` says that it is a text from its beginning to its end.

    An empty one says that the model is at work: it thinks, or writes the arguments of a call.
    """

    text: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """The model has said all."""

    said: ModelResponse  # Its answer as the library holds it, for later rounds
    size: int  # Bytes of it
    wishes: tuple[Wish, ...]  # The tools that it asks for
    usage: Usage  # Tokens; empty where the service does not tell
    model: str  # The model that answered, as the service calls it
    complete: bool  # Whether the service said why it ended; a stream that was cut says nothing
    filtered: bool  # Whether the service broke it off because of what it says


class Service:
    """The model; an asynchronous context manager."""

    def __init__(
        self, endpoint: Endpoint, model: str, key: str, turn: Turn, *, max_retries: int, silence: float
    ) -> None:
        """A service that nothing is connected to yet.

        Args:
            endpoint: Where it is.
            model: The model as it knows it.
            key: The key; empty where none is needed.
            turn: Whose tools are offered, and whose system prompt and task begin every request.
            max_retries: How often it is asked again before an answer has begun.
            silence: Seconds that one read may take.

        Raises:
            BrainNotConfigured: the certificates that a variable names cannot be read.
        """
        try:
            trusted = httpx2.create_ssl_context()
        except OSError as error:
            why = f"SSL_CERT_FILE or SSL_CERT_DIR names certificates that cannot be read ({error.strerror or error})"
            raise BrainNotConfigured(f"The {NAME} brain cannot tell whom to trust: {why}.") from error
        limits = httpx2.Timeout(silence, connect=_CONNECT_SECONDS)
        self._key = key
        self._http = httpx2.AsyncClient(
            verify=trusted,
            trust_env=False,
            follow_redirects=False,
            timeout=limits,
            event_hooks={"request": [self._clean]},
        )
        client = AsyncOpenAI(
            base_url=endpoint.url, api_key=key or _NO_KEY, http_client=self._http, max_retries=max_retries
        )
        self._model: Model = OpenAIChatModel(model, provider=_provider(endpoint.name, client))
        self._asked = model
        self._turn = turn
        tools = [_offered(spec) for spec in turn.tools]
        self._parameters = ModelRequestParameters(function_tools=tools)
        offered = json.dumps([[tool.name, tool.description, tool.parameters_json_schema] for tool in tools])
        self.fixed = bytes_of(turn.system) + bytes_of(turn.prompt) + size_of(turn.images) + bytes_of(offered)
        """Bytes that every request has: the system prompt, the task with its images, and the tools."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask(self, exchanges: Sequence[Exchange], dropped: int) -> AsyncGenerator[Piece | Answered, None]:
        """One round: the pieces of its text, and at the end the whole answer.

        Args:
            exchanges: The rounds before it.
            dropped: How many earlier ones were left out.

        Raises:
            BrainLost: the answer came to no end.
            Exception: whatever the library raises.
        """
        messages = self._messages(exchanges, dropped)
        stream = model_request_stream(
            self._model, messages, model_request_parameters=self._parameters, instrument=False
        )
        async with stream as answer:
            size = 0
            async for event in answer:
                size += _grown(event)
                if size > _LONGEST_ANSWER:
                    raise BrainLost(NAME, f"its answer came to no end within {_LONGEST_ANSWER} characters")
                match event:
                    case PartStartEvent(part=TextPart(content=text)):
                        yield Piece(text)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                        yield Piece(text)
                    case PartEndEvent(part=TextPart(content=text)) if text:
                        yield Piece(text, whole=True)
                    case _:
                        yield Piece("")
            response = answer.get()
        yield self._answered(response)

    async def _clean(self, request: httpx2.Request) -> None:
        """Leave of the headers what a request needs: the client adds whatever `OPENAI_…` variables name."""
        for name in list(request.headers):
            if name.lower() not in _HEADERS:
                del request.headers[name]
        if self._key:
            request.headers["authorization"] = f"Bearer {self._key}"

    def _messages(self, exchanges: Sequence[Exchange], dropped: int) -> list[ModelMessage]:
        task = self._turn.prompt
        if dropped:
            task += f"\n\n[The first {dropped} rounds of work on this were left out here for lack of room.]"
        asked = UserPromptPart([*_looked_at(self._turn.images), task] if self._turn.images else task)
        messages: list[ModelMessage] = [ModelRequest([SystemPromptPart(self._turn.system), asked])]
        for exchange in exchanges:
            messages.append(exchange.said)
            heard = [UserPromptPart(text) for text in exchange.heard]
            # A tool's answer is text to these services, so that images come as if a person showed them.
            shown = [_shown(answer) for answer in exchange.answers if answer.images]
            messages.append(ModelRequest([*(_returned(answer) for answer in exchange.answers), *shown, *heard]))
        return messages

    def _answered(self, response: ModelResponse) -> Answered:
        details = response.provider_details or {}
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        texts = [part.content for part in response.parts if isinstance(part, TextPart | ThinkingPart)]
        size = sum(map(bytes_of, texts)) + sum(bytes_of(call.args_as_json_str()) for call in calls)
        used = response.usage
        return Answered(
            said=replace(response, parts=[_sendable(part) for part in response.parts]),
            size=size,
            wishes=tuple(Wish(call.tool_call_id, call.tool_name, _arguments(call)) for call in calls),
            usage=Usage(
                used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens
            ).bounded(),
            model=response.model_name or self._asked,
            complete="finish_reason" in details,
            filtered=response.finish_reason == "content_filter",
        )


def _grown(event: ModelResponseStreamEvent) -> int:
    """Characters that an event adds to the answer."""
    match event:
        case PartDeltaEvent(
            delta=TextPartDelta(content_delta=str(text))
            | ThinkingPartDelta(content_delta=str(text))
            | ToolCallPartDelta(args_delta=str(text))
        ):
            return len(text)
        case _:
            return 0


def _provider(name: str, client: AsyncOpenAI) -> Provider[AsyncOpenAI]:
    """What the library knows of the service's manners."""
    match name:
        case "openai":
            return OpenAIProvider(openai_client=client)
        case "ollama" | "ollama-cloud":
            return OllamaProvider(openai_client=client)
        case "vllm":
            return VLLMProvider(openai_client=client)
        case _:
            return OpenAICompatibleProvider(name, openai_client=client)


def _offered(spec: ToolSpec) -> ToolDefinition:
    return ToolDefinition(name=spec.name, description=spec.description, parameters_json_schema=dict(spec.input_schema))


def _returned(answer: Answer) -> ToolReturnPart:
    return ToolReturnPart(
        tool_name=answer.tool,
        content=answer.text,
        tool_call_id=answer.call_id,
        outcome="failed" if answer.failed else "success",
    )


def _shown(answer: Answer) -> UserPromptPart:
    return UserPromptPart([f"[Shown by {answer.tool}, call {answer.call_id}]", *_looked_at(answer.images)])


def _looked_at(images: Sequence[Image]) -> list[UserContent]:
    """Images, each behind its name where it has one."""
    found: list[UserContent] = []
    for image in images:
        found += [f"{image.name}:"] if image.name else []
        found.append(BinaryContent(image.data, media_type=image.mime))
    return found


def _sendable(part: ModelResponsePart) -> ModelResponsePart:
    """The part as later rounds send it: some services refuse a conversation in which arguments are no JSON."""
    if isinstance(part, ToolCallPart) and _arguments(part) is None:
        return replace(part, args="{}")
    return part


def _arguments(call: ToolCallPart) -> dict[str, Any] | None:
    if isinstance(call.args, dict):
        return call.args
    try:
        found = json.loads(call.args or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
