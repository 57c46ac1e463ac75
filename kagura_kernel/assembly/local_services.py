"""Services with an OpenAI-compatible API: which answer, and which models they have.

Unasked, only loopback addresses are: those of the services that are known by name, and of the endpoints in the
settings, without a key. For a list of models the configured ones are asked too, each with its own key and no other.
Whatever answers may be any program, so that its answer is bounded in size and time, and read strictly.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from kagura_kernel.brain.openai_compatible import KNOWN, Key, is_loopback
from kagura_kernel.domain.errors import CredentialError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.settings import Settings
from kagura_kernel.membrane.credentials.secret import begin

SECONDS = 1.5
"""How long all of them together may take."""

LARGEST = 256 * 1024
"""Bytes of one answer."""

_MOST_MODELS, _LONGEST_NAME = 100, 200


@dataclass(frozen=True, slots=True)
class LocalService:
    """A service that has answered."""

    name: str  # What `endpoint` calls it
    models: tuple[str, ...]  # Its models, as it tells them


def local_urls(settings: Settings) -> dict[str, str]:
    """The base URLs that are looked at, by the names of their endpoints."""
    given = {name: one.url for name, one in settings.endpoints.items() if one.url}
    urls = {name: known.url for name, known in KNOWN.items()} | given
    return {name: url for name, url in urls.items() if is_loopback(urlsplit(url).hostname or "")}


def local_services(urls: Mapping[str, str], keys: Mapping[str, Key] | None = None) -> list[LocalService]:
    """Those that answer with at least one model, in the order given; blocks for `SECONDS` at most.

    Args:
        urls: Their base URLs by name. `problem_with_url` has found nothing in those that a key is sent to.
        keys: The key of those that are asked with one, by the same names.
    """
    keys = keys or {}
    until = time.monotonic() + SECONDS
    # A thread for each, which is left to itself when it is late: nothing waits for it.
    asked = {name: begin(partial(_models, url, until, keys.get(name)), "kagura service") for name, url in urls.items()}
    found = []
    for name, future in asked.items():
        try:
            models = future.result(max(0.0, until - time.monotonic()))
        except (OSError, http.client.HTTPException, ValueError, RecursionError, TimeoutError, CredentialError):
            continue
        if models:
            found.append(LocalService(name, tuple(models)))
    return found


def _models(url: str, until: float, key: Key | None) -> Sequence[str]:
    """Names of the models that a service tells.

    Raises:
        OSError: nothing answers there, or too slowly.
        HTTPException: what answers does not speak HTTP.
        ValueError: its answer is too long, or no list of models; or its key cannot be sent.
        CredentialError: its key cannot be read.
    """
    headers = {"Accept": "application/json"}
    if key is not None:
        headers["Authorization"] = asyncio.run(_bearer(key))
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/models", headers=headers)
        with connection.getresponse() as answer:
            if answer.status != http.client.OK:
                raise ValueError("it has no list of models")
            return _names(json.loads(_body(answer, until)))
    finally:
        connection.close()


async def _bearer(key: Key) -> str:
    return f"Bearer {await key.read()}"


def _body(answer: http.client.HTTPResponse, until: float) -> bytes:
    data = b""
    while piece := answer.read1(LARGEST):
        data += piece
        if len(data) > LARGEST or time.monotonic() > until:
            raise ValueError("the answer is too long")
    return data


def _names(answer: Any) -> list[str]:
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise ValueError("it is no list of models")  # noqa: TRY004 - of the answer, not of an argument
    names = [row.get("id") for row in rows if isinstance(row, dict)]
    fit = [name for name in names if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()]
    return list(dict.fromkeys(fit))[:_MOST_MODELS]
