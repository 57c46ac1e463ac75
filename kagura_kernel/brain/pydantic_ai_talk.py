"""One turn with a model behind an OpenAI-compatible API: its loop, from the task to the last answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
)

from kagura_kernel.brain.openai_compatible import (
    KEY_VARIABLE,
    NAME,
    Endpoint,
    Price,
    is_loopback,
    joined_model,
    without,
)
from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainHeard, BrainText, BrainUsage, Turn
from kagura_kernel.brain.pydantic_ai_service import (
    FIRST_GUESS,
    Answer,
    Answered,
    Exchange,
    Piece,
    Service,
    Wish,
    fit,
    measured,
    room_in,
)
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainError, BrainLost, BrainRefused
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.tools import ToolCall, ToolResult


async def make_calls(turn: Turn, calls: Sequence[ToolCall]) -> list[ToolResult]:
    """The results, in the order of the calls. Cancelled, or when one raises, the others are cancelled and have ended.

    Raises:
        Exception: what the first of them raised.
    """
    together = {spec.name: spec.read_only or spec.side_by_side for spec in turn.tools}
    results: list[ToolResult] = []
    for group in _groups(calls, together):
        results += await turn.call_at_once(group)
    return results


def _groups(calls: Sequence[ToolCall], together: Mapping[str, bool]) -> Iterator[list[ToolCall]]:
    """Neighbours that may be made at once."""
    group: list[ToolCall] = []
    for call in calls:
        if together.get(call.name):
            group.append(call)
            continue
        if group:
            yield group
        yield [call]
        group = []
    if group:
        yield group


_FIRST_SERVER_ERROR = 500


def meant(error: Exception, endpoint: Endpoint, model: str, *, key: str, begun: bool) -> BrainError:
    """Our error for what a request raised.

    Args:
        error: Whatever it was.
        endpoint: Where it went.
        model: The model, as the service knows it.
        key: What must not stand in an error.
        begun: Whether the answer had begun.
    """
    if isinstance(error, ModelConnectionError):
        return _no_connection(error, endpoint, begun=begun)
    if not isinstance(error, ModelAPIError):
        # What is no answer at all: a page of a proxy, JSON that breaks off. Its text may be long, and anything.
        said = without([key], f"{type(error).__name__}: {error}")
        return BrainLost(NAME, f"what {endpoint.where} sent cannot be understood ({said})")
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    if isinstance(error, ModelQuotaExceededError):
        return BrainRefused(NAME, f"the account at {endpoint.where} has no credit left. Add some there.", status)
    if status is not None:
        return refused(status, endpoint, model, without([key], _said(error)))
    return BrainRefused(NAME, f"{endpoint.where} answered with an error: {without([key], _said(error))}")


def _no_connection(error: BaseException, endpoint: Endpoint, *, begun: bool) -> BrainLost:
    if begun:
        return BrainLost(NAME, f"the connection to {endpoint.where} was cut in the middle of an answer")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"the certificate of {endpoint.where} is not trusted ({cause.verify_message})"
            return BrainLost(NAME, f"{why}; let SSL_CERT_FILE name the authority that signed it, if you trust that one")
        cause = cause.__cause__ or cause.__context__
    hint = f"; {endpoint.start}" if endpoint.start else ""
    if not hint and getproxies() and not is_loopback(urlsplit(endpoint.url).hostname or ""):
        hint = "; this brain goes there by itself, past the proxy that the environment names"
    return BrainLost(NAME, f"nothing answers at {endpoint.name} ({endpoint.url}){hint}")


def refused(status: int, endpoint: Endpoint, model: str, said: str) -> BrainRefused:
    """The service's no, with what to do about it."""
    name = endpoint.name
    variable = f"set {KEY_VARIABLE}, or " if endpoint.nameless else ""
    advice = {
        401: f"{name} does not accept the key (401). Check {endpoint.key.place}, or give another with `%kagura setup`."
        if endpoint.key is not None
        else f"{name} asks for a key (401), and none is configured: {variable}say where it is in {endpoint.table}.",
        403: f"this key may not do that at {name} (403). Ask whoever gave it to you.",
        404: f"{name} has no model {model!r}, or its URL is not the right one (404). Choose another with `--model`.",
        429: f"too many requests, or the account's limit at {name} is reached (429). Wait a little and try again.",
        503: f"{name} is overloaded or still loading its model (503). Wait a little and run the cell again.",
        529: f"{name} is overloaded (529). Wait a little and run the cell again.",
    }.get(status)
    if advice is None and status >= _FIRST_SERVER_ERROR:
        advice = f"{name} failed ({status}): {said}. Wait a little and run the cell again."
    return BrainRefused(NAME, advice or f"{name} answered {status}: {said}", status)


def too_long(endpoint: Endpoint, window: int) -> BrainRefused:
    """The system prompt, the task and the tools alone are too much."""
    return BrainRefused(
        NAME,
        f"the task and the tools do not fit into {window} tokens, which is what the model at {endpoint.name} takes. "
        f"Use a model with a larger window; if this one's is larger, say so with `context_tokens` in "
        f"{endpoint.table}.",
    )


def _said(error: ModelAPIError) -> str:
    body = error.body
    if isinstance(body, dict) and isinstance(message := body.get("message"), str):
        return message
    return error.message


_SMALLER = 0.6  # of the window is left when the service says that it was not so large
_SMALLEST = 1024  # tokens; below, a conversation is not to be had


class Talk:
    """One turn. `events` may be used once; closing it ends the connection and every call."""

    def __init__(
        self,
        turn: Turn,
        endpoint: Endpoint,
        model: str,
        *,
        key: str,
        window: int,
        price: Price,
        max_retries: int,
        silence: float,
    ) -> None:
        """A talk that has not begun.

        Args:
            turn: What to do.
            endpoint: Where the model is.
            model: The model, as the service knows it.
            key: The service's key; empty for none.
            window: Tokens that the model takes.
            price: What tokens cost, for the budget.
            max_retries: How often the service is asked again before an answer has begun.
            silence: Seconds without a word after which it counts as lost.
        """
        self._turn = turn
        self._endpoint = endpoint
        self._model = model
        self._key = key
        self._window = window
        self._price = price
        self._silence = silence
        self._service = Service(endpoint, model, key, turn, max_retries=max_retries, silence=silence)
        self._exchanges: tuple[Exchange, ...] = ()
        self._dropped = 0
        self._per_token = FIRST_GUESS
        self._usage = Usage()
        self._spent = 0.0
        self._turns = 0
        self._text = ""
        self._answered_by = joined_model(endpoint.name, model)

    async def events(self) -> AsyncGenerator[BrainEvent, None]:
        """The events; the connection is closed before `BrainDone` is yielded."""
        stopped: Literal["", "budget", "turns"] = ""
        async with self._service:
            while not stopped:
                answered: Answered | None = None
                async with aclosing(self._round()) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Answered):
                            answered = piece
                        elif piece.text:
                            yield self._told(piece)
                if answered is None:  # `_round` ends with an answer, or raises
                    raise BrainLost(NAME, f"{self._endpoint.where} said nothing")
                yield self._counted(answered)
                if not answered.wishes and (self._turn.sentences.empty() or self._limit()):
                    break
                stopped = self._limit()
                if not stopped:
                    answers = await self._answers(answered.wishes)
                    heard = self._told_meanwhile()
                    said = tuple(sentence.text for sentence in heard)
                    self._exchanges = (*self._exchanges, Exchange(answered.said, answered.size, answers, said))
                    for sentence in heard:
                        yield BrainHeard(sentence.text, sentence.id)
        yield BrainDone(
            text=self._text,
            usage=self._usage,
            model=self._answered_by,
            turns=self._turns,
            stopped=stopped,
        )

    def _told(self, piece: Piece) -> BrainText:
        if piece.whole:
            self._text = piece.text
        return BrainText(piece.text, partial=not piece.whole)

    def _limit(self) -> Literal["", "budget", "turns"]:
        """Why there may be no further round."""
        budget, turns = self._turn.budget_usd, self._turn.max_turns
        if budget is not None and self._spent >= budget:
            return "budget"
        return "turns" if turns is not None and self._turns >= turns else ""

    # --------------------------------------------------------------- one round

    async def _round(self) -> AsyncGenerator[Piece | Answered, None]:
        """One round, asked again with less where it was too long for the model."""
        while True:
            self._make_room()
            begun = False
            try:
                asked = self._service.ask(self._exchanges, self._dropped)
                async with aclosing(asked), aclosing(self._awake(asked)) as stream:
                    async for piece in stream:
                        begun = True
                        if isinstance(piece, Answered):
                            self._check(piece)
                        yield piece
            except (BrainLost, BrainRefused):
                raise
            except ModelContextWindowExceededError:
                if begun or not self._shrink():
                    raise too_long(self._endpoint, self._window) from None
            # The library and those below it raise errors of many kinds; each means that there is no answer. They are
            # not chained: a service may repeat the key in what it says.
            except Exception as error:  # noqa: BLE001
                raise meant(error, self._endpoint, self._model, key=self._key, begun=begun) from None
            else:
                return

    async def _awake(self, stream: AsyncGenerator[Piece | Answered, None]) -> AsyncGenerator[Piece | Answered, None]:
        """The same stream, which may not be silent for too long."""
        while True:
            try:
                async with asyncio.timeout(self._silence):
                    piece = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise BrainLost(NAME, f"{self._endpoint.where} said nothing for {self._silence:g} s") from None
            yield piece

    def _check(self, answered: Answered) -> None:
        if answered.filtered:
            raise BrainRefused(NAME, f"{self._endpoint.where} broke the answer off because of its content.")
        if not answered.complete:
            raise BrainLost(NAME, f"the connection to {self._endpoint.where} was cut in the middle of an answer")

    def _make_room(self) -> None:
        fitted = fit(self._exchanges, room_in(self._window, self._per_token) - self._service.fixed)
        if not fitted.fits:
            raise too_long(self._endpoint, self._window)
        self._exchanges = fitted.exchanges
        self._dropped += fitted.dropped

    def _shrink(self) -> bool:
        """Take the window for smaller; whether that leaves anything to leave out."""
        sent = self._sent()
        # What was too long is known: the window ends below it, whatever its tokens are.
        self._window = int(min(self._window, sent / self._per_token) * _SMALLER)
        return bool(self._exchanges) and self._window >= _SMALLEST

    def _sent(self) -> int:
        return self._service.fixed + sum(exchange.whole for exchange in self._exchanges)

    # ------------------------------------------------------------ what came of it

    def _counted(self, answered: Answered) -> BrainUsage:
        usage, sent = answered.usage, self._sent()
        if usage.input_tokens:
            self._per_token = measured(sent, usage.input_tokens)
        if usage == Usage():
            # The service tells nothing. A guess keeps the books nearer to the truth than none.
            usage = Usage(int(sent / self._per_token), int(answered.size / self._per_token))
        self._usage += usage
        self._turns += 1
        self._answered_by = joined_model(self._endpoint.name, answered.model)
        price, _ = self._price(usage, self._answered_by, datetime.now(UTC))
        self._spent += price or 0.0
        return BrainUsage(usage, self._answered_by)

    def _told_meanwhile(self) -> list[Sentence]:
        """What a person has said since the last round."""
        return [self._turn.sentences.get_nowait() for _ in range(self._turn.sentences.qsize())]

    async def _answers(self, wishes: Sequence[Wish]) -> tuple[Answer, ...]:
        """Make the calls that were asked for: what they were answered, for the next round."""
        calls = [ToolCall(new_call_id(), wish.tool, wish.arguments) for wish in wishes if wish.arguments is not None]
        results = iter(await make_calls(self._turn, calls))
        answers: list[Answer] = []
        for wish in wishes:
            if wish.arguments is None:
                answers.append(_no_json(wish))
                continue
            result = next(results)
            answers.append(Answer(wish.call_id, wish.tool, result.text, failed=result.is_error, images=result.images))
        return tuple(answers)


def _no_json(wish: Wish) -> Answer:
    text = f"The call of {wish.tool} was not made: its arguments are no JSON object. Call it again with one."
    return Answer(wish.call_id, wish.tool, text, failed=True)
