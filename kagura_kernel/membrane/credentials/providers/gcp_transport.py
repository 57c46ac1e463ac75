"""How google-auth speaks HTTP with us: over httpx, without redirects, remembering the last answer's head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import httpx
from google.auth.exceptions import TransportError
from google.auth.transport import Request, Response

_LARGEST = 1 << 20


class HttpxResponse(Response):
    """An answer as google-auth wants it."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self._status = status
        self._headers = headers
        self._data = data

    @property
    def status(self) -> int:
        """HTTP status."""
        return self._status

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        return self._headers

    @property
    def data(self) -> bytes:
        """The body."""
        return self._data


class HttpxTransport(Request):
    """google-auth's transport; a context manager."""

    def __init__(self, *, timeout: float) -> None:
        self.status = 0  # Of the last answer; 0 before there is one
        self.headers: Mapping[str, str] = {}  # Of the last answer, names in lower case
        self._client = httpx.Client(timeout=timeout, follow_redirects=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> HttpxResponse:
        """One request.

        Raises:
            TransportError: there was no answer.
        """
        del timeout  # ours is shorter
        try:
            with self._client.stream(method, url, content=body, headers=dict(headers or {})) as answer:
                data = bytearray()
                for piece in answer.iter_bytes():
                    data += piece
                    if len(data) > _LARGEST:
                        raise TransportError("the answer is too large")  # type: ignore[no-untyped-call]
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise TransportError(type(error).__name__) from error  # type: ignore[no-untyped-call]
        self.status, self.headers = answer.status_code, dict(answer.headers)
        return HttpxResponse(self.status, self.headers, bytes(data))
