"""Whoever looks into the requests of one loopback URL and their answers: what may pass, and what it costs.

Most URLs have nobody: what a person's own service is asked is between it and the box.
"""

from __future__ import annotations

from typing import Protocol

from kagura_kernel.membrane.credentials.injection.rewriting import Headers


class AnswerWatch(Protocol):
    """Hears one answer on its way into the box."""

    def heard(self, piece: bytes) -> None:
        """A piece of its body, as the upstream sent it."""
        ...

    def ended(self) -> None:
        """There is no more of it, whole or broken off; called once."""
        ...


class RequestWatch(Protocol):
    """Looks into one request and its answer; made for that request alone."""

    @property
    def longest(self) -> int:
        """Bytes that its body may have: it is held until it has been looked at."""
        ...

    def admit(self, method: bytes, target: bytes) -> None:
        """Look at what is asked for.

        Raises:
            BadRequest: it is not passed on.
        """
        ...

    def headers(self, headers: Headers) -> Headers:
        """Those of the request's headers that may leave the box."""
        ...

    async def body(self, body: bytes) -> None:
        """Look at the whole body, before any of the request is sent.

        Raises:
            BadRequest: it is not passed on.
        """
        ...

    def answer(self, status: int) -> AnswerWatch:
        """An answer begins."""
        ...

    def ended(self) -> None:
        """The request is over, however it went; called once, last."""
        ...
