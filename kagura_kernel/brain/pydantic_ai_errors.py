"""What Pydantic AI's errors mean in our words."""

from __future__ import annotations

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
)

from kagura_kernel.brain.openai_compatible import NAME, Endpoint, without
from kagura_kernel.domain.errors import BrainError, BrainLost, BrainRefused

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
        return _no_connection(endpoint, begun=begun)
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


def _no_connection(endpoint: Endpoint, *, begun: bool) -> BrainLost:
    if begun:
        return BrainLost(NAME, f"the connection to {endpoint.where} was cut in the middle of an answer")
    hint = f"; {endpoint.start}" if endpoint.start else ""
    return BrainLost(NAME, f"nothing answers at {endpoint.name} ({endpoint.url}){hint}")


def refused(status: int, endpoint: Endpoint, model: str, said: str) -> BrainRefused:
    """The service's no, with what to do about it."""
    name = endpoint.name
    advice = {
        401: f"{name} does not accept the key (401). Check {endpoint.key.place}."
        if endpoint.key is not None
        else f"{name} asks for a key (401), and none is configured: say where it is in [endpoints.{name}].",
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
        f"[endpoints.{endpoint.name}].",
    )


def _said(error: ModelAPIError) -> str:
    body = error.body
    if isinstance(body, dict) and isinstance(message := body.get("message"), str):
        return message
    return error.message
