"""A client for HTTPS that holds to a list of hosts, whatever guest code asks it for.

Each request, and each redirect anew, passes the same gate: the URL's form, the list, the cache, the rate, and then the
jail's proxy, behind which the membrane checks every address. Whatever is refused on that way has one text. The reason
goes to the plugin's log, with the host and without path and query.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from .allowing import AllowList, Url, follow, parse_url
from .arguments import encoded, shown, text_of
from .faults import ArgumentRefused, ConfigRefused, NetworkRefused, ResponseRefused
from .limits import Budget, Monotonic, Rate
from .notes import Notes
from .wire import (
    Answer,
    Cache,
    Deadline,
    Fetched,
    NoAnswer,
    Unreachable,
    client_context,
    connected,
    proxy_port,
    read_answer,
)

MAX_RESPONSE = 2**20
"""Bytes of one answer's body."""

MAX_TOTAL = 2 * 2**20
"""Bytes of all bodies together, those that are sent and those that are received."""

A_MINUTE = 30
AN_HOUR = 100
"""Requests; a redirect is one of its own."""

MAX_REDIRECTS = 5

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
"""What may be configured."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD = frozenset({307, 308})
_WITHOUT_BODY = frozenset({"GET", "HEAD"})
_SEE_OTHER = 303

MAX_HEADERS = 32
MAX_HEADER_NAME = 64
MAX_HEADER_BYTES = 8 * 1024

Headers = dict[str, str]
"""By name as the caller wrote it; no name stands twice in another case."""

# They decide where a request goes, where it ends, as whom it goes, or what a proxy or a platform believes of it.
_REFUSED = frozenset(
    "accept-encoding connection content-length cookie cookie2 date expect forwarded host http2-settings "
    "keep-alive max-forwards metadata metadata-flavor origin referer set-cookie set-cookie2 te trailer "
    "transfer-encoding true-client-ip upgrade via x-google-metadata-request x-http-method "
    "x-http-method-override x-method-override x-original-url x-real-ip x-rewrite-url".split()
)
_REFUSED_BEGINNINGS = ("proxy-", "sec-", "x-forwarded-", "x-aws-ec2-metadata-", "access-control-request-", "cf-")

# Whatever else a caller sets may be a key of the first host, whichever name it has there.
_GO_ALONG = frozenset({"accept", "accept-language", "cache-control", "pragma", "user-agent"})
_OF_THE_BODY = frozenset({"content-language", "content-type"})

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class HttpsLimits:
    """What one client may do; more than the module's bounds is cut down to them."""

    response_bytes: int = MAX_RESPONSE  # Of one body
    total_bytes: int = MAX_TOTAL  # Of all bodies
    a_minute: int = A_MINUTE  # Requests
    an_hour: int = AN_HOUR  # Requests
    seconds: float = 20.0  # What one call takes at most, redirects included


class HttpsClient:
    """Asks listed hosts, within its limits. Safe to use from several threads.

    `trust` holds certificates (PEM) of the only authority to believe, empty for those of the system; `proxy` is the
    port of the proxy on the loopback, None for the jail's. Raises `ConfigRefused`: an entry of the list is no host to
    allow, or a method is none of `METHODS`.
    """

    def __init__(
        self,
        allowed: Iterable[str],
        methods: Iterable[str] = ("GET", "HEAD"),
        limits: HttpsLimits | None = None,
        *,
        user_agent: str = "kagura-fetch/1",
        trust: str = "",
        proxy: int | None = None,
        now: Monotonic = time.monotonic,
    ) -> None:
        limits = limits or HttpsLimits()
        self._allowed = AllowList(allowed)
        self._methods = frozenset(methods)
        if unknown := sorted(self._methods - set(METHODS)):
            raise ConfigRefused(f"{shown(unknown[0])} is no method. There are {', '.join(METHODS)}.")
        self._response_bytes = min(limits.response_bytes, MAX_RESPONSE)
        self._budget = Budget(min(limits.total_bytes, MAX_TOTAL), "bytes sent and received")
        windows = ((min(limits.a_minute, A_MINUTE), 60.0), (min(limits.an_hour, AN_HOUR), 3600.0))
        self._rate = Rate(windows, "requests", now)
        self._seconds = limits.seconds
        self._user_agent = user_agent
        self._context: ssl.SSLContext = client_context(trust)
        self._proxy = proxy_port() if proxy is None else proxy
        self._cache = Cache(now)
        self._notes = Notes(now)
        self._now = now

    def fetch(self, url: Any, method: Any = "GET", headers: Any = None, body: Any = None) -> dict[str, Any]:
        """What a URL answers.

        Returns:
            `url` (the last one), `status`, `reason`, `headers` (lower case), `redirects`, `cached`, and `text`, or
            `base64` where the body is no plain text.

        Raises:
            ArgumentRefused: an argument that is none.
            NetworkRefused: it is not allowed or cannot be made.
            LimitReached: the rate or the budget is used up.
            TooLarge: the answer is.
            ResponseRefused: the answer is none, or redirects too often.
        """
        target = parse_url(url)
        if not isinstance(method, str) or method not in self._methods:
            raise ArgumentRefused(f"method must be one of {', '.join(sorted(self._methods))}.")
        data = b"" if body is None else encoded("body", text_of("body", body, most=self._response_bytes))
        asked = _Request(method, checked_headers(headers), data)
        if asked.body and asked.method in _WITHOUT_BODY:
            raise ArgumentRefused(f"{asked.method} has no body.")
        deadline = Deadline(self._seconds, self._now)
        for redirects in range(MAX_REDIRECTS + 1):
            fetched = self._step(target, asked, deadline)
            location = fetched.headers.get("location", "")
            if fetched.status not in _REDIRECTS or not location:
                return fetched.shown(str(target), redirects)
            target, asked = self._redirected(target, asked, fetched.status, location)
        raise ResponseRefused(f"The server redirects more than {MAX_REDIRECTS} times.")

    def _step(self, url: Url, asked: _Request, deadline: Deadline) -> Fetched:
        # The list comes before the cache: what it held when another list was in force must not answer for this one.
        if not self._allowed.admits(url.host):
            self._refuse(url, "it is not listed")
        if asked.method not in self._methods:
            self._refuse(url, f"{asked.method} is not configured")
        key = (str(url), asked.header("accept"))
        # An answer that could be the same for anybody.
        plain = all(name.lower() in {"accept", "user-agent"} for name in asked.headers)
        cacheable = asked.method == "GET" and plain
        if cacheable and (known := self._cache.get(key)):
            return known
        fetched = self._ask(url, asked, deadline)
        if cacheable:
            self._cache.put(key, fetched)
        return fetched

    def _ask(self, url: Url, asked: _Request, deadline: Deadline) -> Fetched:
        if not self._proxy:
            self._refuse(url, "this jail has no way out")
        self._rate.take()
        self._budget.take(len(asked.body))
        try:
            with connected(url, self._proxy, self._context, deadline) as connection:
                connection.settimeout(deadline.left())
                connection.sendall(asked.written(url, self._user_agent))
                answer = Answer(connection, asked.method, self._response_bytes, deadline)
                if answer.head.status in _REDIRECTS and answer.header("location"):
                    return Fetched.without_body(answer)
                return read_answer(answer, self._response_bytes, self._budget)
        except (Unreachable, OSError) as error:
            self._refuse(url, str(error) or type(error).__name__)
        except NoAnswer as error:
            self._notes.add(f"{url.host}: {error}")
            raise ResponseRefused("The server's answer is no HTTP, is cut, or has too long a head.") from None

    def _redirected(self, url: Url, asked: _Request, status: int, location: str) -> tuple[Url, _Request]:
        try:
            target = follow(url, location)
        except NetworkRefused:
            self._refuse(url, "it redirects to what may not be asked for")
        headers = asked.headers if target.host == url.host else for_another_host(asked.headers)
        if status in _KEEP_METHOD or asked.method == "HEAD" or (status != _SEE_OTHER and asked.method == "GET"):
            return target, _Request(asked.method, headers, asked.body)
        without_body = {name: value for name, value in headers.items() if name.lower() not in _OF_THE_BODY}
        return target, _Request("GET", without_body, b"")

    def _refuse(self, url: Url, why: str) -> NoReturn:
        self._notes.add(f"{url.host}: {why}")
        raise NetworkRefused from None


class _Request:
    def __init__(self, method: str, headers: Mapping[str, str], body: bytes) -> None:
        self.method = method
        self.headers: Headers = dict(headers)
        self.body = body

    def header(self, lower: str) -> str:
        return next((value for name, value in self.headers.items() if name.lower() == lower), "")

    def written(self, url: Url, user_agent: str) -> bytes:
        own = {"Host": url.host, "Connection": "close", "Accept-Encoding": "identity"}
        names = {name.lower() for name in self.headers}
        if "user-agent" not in names:
            own["User-Agent"] = user_agent
        if "accept" not in names:
            own["Accept"] = "*/*"
        if self.method not in _WITHOUT_BODY:
            own["Content-Length"] = str(len(self.body))
            if self.body and "content-type" not in names:
                own["Content-Type"] = "text/plain; charset=utf-8"
        lines = [f"{self.method} {url.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in (own | self.headers).items()]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + self.body


def checked_headers(given: Any) -> Headers:
    """The headers of a caller.

    Raises `ArgumentRefused`: they are no object of texts, too many, too long, name one twice, hold a line break or
    anything beside printable ASCII, or name one that a caller may not set.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentRefused(f"headers must be an object of texts, not {type(given).__name__}.")
    if len(given) > MAX_HEADERS:
        raise ArgumentRefused(f"There may be {MAX_HEADERS} headers.")
    seen: set[str] = set()
    for name, value in given.items():
        _check_header(name, value)
        if name.lower() in seen:
            raise ArgumentRefused(f"The header {shown(name)} stands twice.")
        seen.add(name.lower())
    if sum(len(name) + len(value) + 4 for name, value in given.items()) > MAX_HEADER_BYTES:
        raise ArgumentRefused(f"The headers are longer than {MAX_HEADER_BYTES:,} bytes.")
    return dict(given)


def for_another_host(headers: Headers) -> Headers:
    """What of them goes along to another host after a redirect: no Authorization, and nothing that could be one."""
    return {name: value for name, value in headers.items() if name.lower() in _GO_ALONG | _OF_THE_BODY}


def _check_header(name: Any, value: Any) -> None:
    if not isinstance(name, str) or len(name) > MAX_HEADER_NAME or not _HEADER_NAME.fullmatch(name):
        raise ArgumentRefused(f"{shown(str(name)[:200])} is no name of a header.")
    lower = name.lower()
    if lower in _REFUSED or lower.startswith(_REFUSED_BEGINNINGS):
        raise ArgumentRefused(f"The header {shown(name)} may not be set.")
    if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
        raise ArgumentRefused(f"The value of the header {shown(name)} must be printable ASCII on one line.")
