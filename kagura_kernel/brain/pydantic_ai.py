"""The pydantic_ai brain: any model behind an OpenAI-compatible API, on this machine or elsewhere.

The loop is ours, the model's words are Pydantic AI's business. It is offered our tools and nothing else, has no program
and no files, and of the environment it uses nothing: the endpoint and where its key is kept are told to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kagura_kernel.brain.openai_compatible import (
    DEFAULT_WINDOW,
    NAME,
    Endpoint,
    Figures,
    joined_model,
    problem_with_url,
    split_model,
)
from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainDone, BrainEvent, Turn
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainNotConfigured, CredentialError, NotThisTime, SecretUnavailable

if TYPE_CHECKING:
    from kagura_kernel.brain.pydantic_ai_talk import Talk

INSTALL = "pip install 'kagura-kernel[openai]'"
"""What brings the library."""

_NO_ENDPOINT = "no endpoint is named: set `endpoint` to openai, ollama, lmstudio, vllm or a URL"


class PydanticAIBrain:
    """Thinks with whatever answers at an endpoint. May run several turns at once; each has a connection of its own."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        usual: str = "",
        *,
        figures: Figures | None = None,
        max_retries: int = 4,
        silence: float = 600.0,
    ) -> None:
        """A brain that has connected to nothing.

        Args:
            endpoints: Every one that `--model NAME:MODEL` may name.
            usual: The one for models without a name before them; empty where none is configured.
            figures: What is known of models; None for nothing.
            max_retries: How often an overloaded service is asked again, with growing pauses.
            silence: Seconds without a sign of life after which the service counts as lost.
        """
        self._endpoints = dict(endpoints)
        self._usual = usual
        self._figures = figures or Figures()
        self._max_retries = max_retries
        self._silence = silence

    @property
    def name(self) -> str:
        """`pydantic_ai`."""
        return NAME

    def resolve_auth(self) -> AuthContext:
        """How it would sign in; looks for the library, a setting and a variable."""
        if not self._usual:
            return AuthContext(ready=False, method="", reason=_NO_ENDPOINT)
        endpoint = self._endpoints[self._usual]
        method = "none needed" if endpoint.key is None else "api key"
        if not _installed():
            return AuthContext(ready=False, method=method, reason=f"its library is missing: {INSTALL}")
        if why := problem_with_url(endpoint.url, keyed=endpoint.key is not None):
            return AuthContext(ready=False, method=method, reason=f"the URL of {endpoint.name} will not do: {why}")
        if endpoint.key is None:
            return AuthContext(ready=True, method=method, reason=f"{endpoint.where} needs no key")
        if not endpoint.key.there():
            return AuthContext(ready=False, method=method, reason=_no_key(endpoint))
        return AuthContext(ready=True, method=method, reason=f"{endpoint.where}, key from {endpoint.key.place}")

    def capabilities(self) -> BrainCapabilities:
        """It streams and keeps to a budget where the price is known; it cannot resume and reports no money."""
        return BrainCapabilities(streaming=True, budget=True, by_model=True, listens=True, images=self._takes_images)

    def _takes_images(self, model: str) -> bool:
        try:
            return self.thinks_with(model)[0].images
        except BrainNotConfigured:
            return False

    def thinks_with(self, model: str = "") -> tuple[Endpoint, str]:
        """The endpoint and the model, as the service knows it, that a turn with this model would use.

        Raises:
            BrainNotConfigured: there is no such endpoint, or no model is named.
        """
        named, model = split_model(model, list(self._endpoints))
        name = named or self._usual
        if not name:
            message = f"The {NAME} brain cannot think: {_NO_ENDPOINT}."
            raise BrainNotConfigured(message)
        endpoint = self._endpoints[name]
        if not (model or endpoint.model):
            place = "your settings" if endpoint.nameless else f"{endpoint.table} of your settings"
            message = (
                f"The {NAME} brain has no model for {name}: name one with `--model {name}:MODEL`, or with `model` in "
                f"{place}."
            )
            raise BrainNotConfigured(message)
        return endpoint, model or endpoint.model

    def window(self, endpoint: Endpoint, model: str) -> int:
        """Tokens that a conversation with this model may have."""
        known = endpoint.window or self._figures.window(joined_model(endpoint.name, model))
        return known or DEFAULT_WINDOW

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Think until done. Cancelling, or closing the iterator, ends the connection and every call under way.

        Raises:
            BrainNotConfigured: no endpoint or model is named, its key is not there, or the library is missing.
            BrainRefused: the service said no; `status` is its HTTP status.
            BrainLost: nothing answers there, it fell silent, or it was cut in the middle of an answer.
            NotThisTime: a budget was set and the model's price is not known; nothing was asked.
        """
        if turn.over:
            yield BrainDone(stopped=turn.over)
            return
        if not _installed():
            message = f"The {NAME} brain cannot think: its library is missing. Get it with {INSTALL}."
            raise BrainNotConfigured(message)
        endpoint, model = self.thinks_with(turn.model)
        if why := problem_with_url(endpoint.url, keyed=endpoint.key is not None):
            message = f"The {NAME} brain cannot think: the URL of {endpoint.name} will not do: {why}."
            raise BrainNotConfigured(message)
        self._check_price(turn, endpoint, joined_model(endpoint.name, model))
        key = await _key(endpoint)
        # Imported late, since a kernel that never thinks this way never needs it, and beside the loop: the library
        # takes a second or two, in which other runs go on.
        talking = await asyncio.to_thread(import_module, "kagura_kernel.brain.pydantic_ai_talk")
        talk: Talk = talking.Talk(
            turn,
            endpoint,
            model,
            key=key,
            window=self.window(endpoint, model),
            price=self._figures.price,
            max_retries=self._max_retries,
            silence=self._silence,
        )
        async with aclosing(talk.events()) as events:
            async for event in events:
                yield event

    def _check_price(self, turn: Turn, endpoint: Endpoint, model: str) -> None:
        if turn.budget_usd is None:
            return
        price, _ = self._figures.price(Usage(input_tokens=1, output_tokens=1), model, datetime.now(UTC))
        if price is None:
            raise NotThisTime(
                f"A budget of ${turn.budget_usd:g} cannot be kept: no price is known for model {model!r}. Leave "
                f"`--budget` out, or say what it costs with `input_usd` and `output_usd` in {endpoint.table}."
            )


def _installed() -> bool:
    return find_spec("pydantic_ai") is not None and find_spec("openai") is not None


async def _key(endpoint: Endpoint) -> str:
    if endpoint.key is None:
        return ""
    try:
        return await endpoint.key.read()
    except CredentialError as error:
        why = error.why if isinstance(error, SecretUnavailable) else error.message
        message = f"The {NAME} brain cannot think: {_no_key(endpoint)} ({why})"
        raise BrainNotConfigured(message) from error


def _no_key(endpoint: Endpoint) -> str:
    place = "" if endpoint.key is None else endpoint.key.place
    return f"{endpoint.where} needs a key, and there is none in {place}"
