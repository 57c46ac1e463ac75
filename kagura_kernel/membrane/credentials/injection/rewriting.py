"""Headers on their way through: what a request loses and gains, and what of an answer reaches the box. Pure.

Keeping an upstream from handing the secret back: its bytes become as many `*`, also across the borders of chunks.

Lengths stay the same, so that a length that was announced stays true. Pure.

Whoever looks into the requests of one loopback URL and their answers: what may pass, and what it costs.

Most URLs have nobody: what a person's own service is asked is between it and the box.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from kagura_kernel.membrane.credentials.needles import exact_forms, needles
from kagura_kernel.membrane.credentials.scrub import Covering, LookedFor
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.egress.names import bracketed


class Forms:
    """The bytes in which the secrets of one lease turn up, old ones included; it only grows."""

    def __init__(self) -> None:
        self._secrets: list[Secret] = []
        self._forms = LookedFor.of(())

    def add(self, secrets: Sequence[Secret]) -> None:
        """Know these too."""
        fresh = [secret for secret in secrets if secret not in self._secrets]
        if fresh:
            self._secrets += fresh
            self._forms = LookedFor.of(_encoded(needles(self._secrets)), _encoded(exact_forms(self._secrets)))

    def __call__(self) -> LookedFor:
        """All of them."""
        return self._forms

    def hide(self, data: bytes) -> bytes:
        """A whole text."""
        censor = Censor(self)
        return censor.feed(data) + censor.finish()


class Censor(Covering):
    """One body. What might be the beginning of a secret waits for the next chunk, or the end.

    Args:
        forms: What is looked for; asked for each chunk, for there may be more.
    """

    def __init__(self, forms: Forms) -> None:
        super().__init__(forms, lambda size, _again: b"*" * size)


def _encoded(forms: Sequence[str] | set[str]) -> set[bytes]:
    return {form.encode("utf-8", "surrogatepass") for form in forms}


Headers = list[tuple[bytes, bytes]]

_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings"})
# A credential of its own, a part of an answer (which could show a secret piece by piece), an encoding that cannot be
# looked into, another path or method than those of the request, an origin: none of these leaves the box. A cookie
# would outlive the lease.
_NOT_SENT = frozenset(
    {
        b"host",
        b"content-length",
        b"expect",
        b"authorization",
        b"cookie",
        b"cookie2",
        b"range",
        b"request-range",
        b"if-range",
        b"a-im",
        b"accept-encoding",
        b"accept-charset",
        b"x-http-method-override",
        b"x-http-method",
        b"x-method-override",
        b"forwarded",
        b"x-host",
        b"x-real-ip",
        b"x-client-ip",
        b"true-client-ip",
    }
)
_NOT_SENT_BEGINNINGS = (b"proxy-", b"x-forwarded-", b"x-original-", b"x-rewrite-")
_NOT_DELIVERED = frozenset({b"set-cookie", b"set-cookie2", b"alt-svc"})
_LOCATIONS = frozenset({b"location", b"content-location"})
_LINK = re.compile(r"<([^<>]*)>")
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a lease leads."""

    scheme: str  # `https`, or `http` on loopback
    host: str  # Name or address, without brackets
    port: int  # TCP port
    prefix: str  # Path before every request's own, without a slash at its end

    @classmethod
    def parse(cls, url: str) -> Upstream:
        """From a base URL that `HeaderInjection` has checked."""
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme], parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """For the Host header."""
        name = bracketed(self.host)
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def target(self) -> str:
        """Host and port, for records."""
        return f"{bracketed(self.host)}:{self.port}"

    def path(self, target: bytes) -> bytes:
        """A request's target, as the upstream sees it."""
        return self.prefix.encode() + target

    def inside(self, url: str, asked: bytes, base: str) -> str:
        """A reference of an answer as the box should follow it: below `base` where the upstream itself is meant.

        Args:
            url: As the upstream wrote it, absolute or relative.
            asked: The target that the upstream was asked for.
            base: The loopback URL without a slash at its end.
        """
        try:
            absolute = urljoin(f"{self.scheme}://{self.authority}{asked.decode('ascii')}", url)
            parts = urlsplit(absolute)
            port = parts.port or _PORTS.get(parts.scheme)
        except ValueError:
            return url
        ours = (parts.scheme, parts.hostname, port) == (self.scheme, self.host, self.port) and parts.username is None
        if not ours or not (parts.path + "/").startswith(self.prefix + "/"):
            return absolute if ours else url
        rest = absolute.split("/", 3)[3] if absolute.count("/") > 2 else ""  # noqa: PLR2004 - those of scheme and path
        return f"{base}/{('/' + rest)[len(self.prefix) :].lstrip('/')}"


def outgoing(headers: Iterable[tuple[bytes, bytes]], upstream: Upstream, injected: tuple[bytes, bytes]) -> Headers:
    """The headers that the upstream is sent.

    What names the injected header in any spelling is taken out: some servers read `_` as `-`.
    """
    given = list(headers)
    named = _named_by_connection(given)
    sent: Headers = [(b"host", upstream.authority.encode())]
    for name, value in given:
        plain = name.replace(b"_", b"-")
        if plain in _HOP | _NOT_SENT | {injected[0]} | named or plain.startswith(_NOT_SENT_BEGINNINGS):
            continue
        sent.append((name, value))
    sent += [(name, value) for name, value in given if name in {b"content-length", b"transfer-encoding"}]
    return [*sent, (b"accept-encoding", b"identity"), (b"connection", b"keep-alive"), injected]


def incoming(
    headers: Iterable[tuple[bytes, bytes]],
    upstream: Upstream,
    asked: bytes,
    base: str,
    hide: Callable[[bytes], bytes],
) -> Headers:
    """The headers that the box is answered with.

    Args:
        headers: Those of the upstream.
        upstream: Itself.
        asked: The target that it was asked for.
        base: The loopback URL without a slash at its end.
        hide: Hides secrets.
    """
    given = list(headers)
    named = _named_by_connection(given) - {b"content-length"}
    delivered: Headers = []
    for name, value in given:
        if name in _HOP | _NOT_DELIVERED | named or name.startswith(b"proxy-"):
            continue
        shown = value
        if name in _LOCATIONS:
            shown = upstream.inside(value.decode("latin-1"), asked, base).encode("latin-1", "replace")
        elif name == b"link":
            shown = _LINK.sub(
                lambda found: f"<{upstream.inside(found.group(1), asked, base)}>", value.decode("latin-1")
            ).encode("latin-1", "replace")
        delivered.append((hide(name), hide(shown)))
    return delivered


def _named_by_connection(headers: Headers) -> set[bytes]:
    return {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}


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
