"""Headers of requests: which a caller may set, and which go along to another host. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .arguments import shown
from .faults import ArgumentRefused

MAX_HEADERS = 32
MAX_NAME = 64
MAX_TOTAL = 8 * 1024

Headers = dict[str, str]
"""By name as the caller wrote it; no name stands twice in another case."""

# They decide where a request goes, where it ends, as whom it goes, or what a proxy or a platform believes of it.
_REFUSED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "cookie",
        "cookie2",
        "date",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "max-forwards",
        "metadata",
        "metadata-flavor",
        "origin",
        "referer",
        "set-cookie",
        "set-cookie2",
        "te",
        "trailer",
        "transfer-encoding",
        "true-client-ip",
        "upgrade",
        "via",
        "x-google-metadata-request",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-real-ip",
        "x-rewrite-url",
    }
)
_REFUSED_BEGINNINGS = ("proxy-", "sec-", "x-forwarded-", "x-aws-ec2-metadata-", "access-control-request-", "cf-")

# Whatever else a caller sets may be a key of the first host, whichever name it has there.
_GO_ALONG = frozenset({"accept", "accept-language", "cache-control", "pragma", "user-agent"})
_OF_THE_BODY = frozenset({"content-language", "content-type"})

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)


def checked_headers(given: Any) -> Headers:
    """The headers of a caller.

    Raises:
        ArgumentRefused: they are no object of texts, too many, too long, name one twice, hold a line break or anything
            beside printable ASCII, or name one that a caller may not set.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentRefused(f"headers must be an object of texts, not {type(given).__name__}.")
    if len(given) > MAX_HEADERS:
        raise ArgumentRefused(f"There may be {MAX_HEADERS} headers.")
    seen: set[str] = set()
    for name, value in given.items():
        _check(name, value)
        if name.lower() in seen:
            raise ArgumentRefused(f"The header {shown(name)} stands twice.")
        seen.add(name.lower())
    if sum(len(name) + len(value) + 4 for name, value in given.items()) > MAX_TOTAL:
        raise ArgumentRefused(f"The headers are longer than {MAX_TOTAL:,} bytes.")
    return dict(given)


def for_another_host(headers: Headers) -> Headers:
    """What of them goes along to another host after a redirect: no Authorization, and nothing that could be one."""
    return {name: value for name, value in headers.items() if name.lower() in _GO_ALONG | _OF_THE_BODY}


def without_body(headers: Headers) -> Headers:
    """What of them goes along when a redirect drops the body."""
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_BODY}


def is_plain(headers: Headers) -> bool:
    """Whether an answer to a request with these could be the same for anybody."""
    return all(name.lower() in {"accept", "user-agent"} for name in headers)


def _check(name: Any, value: Any) -> None:
    if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise ArgumentRefused(f"{shown(str(name)[:200])} is no name of a header.")
    lower = name.lower()
    if lower in _REFUSED or lower.startswith(_REFUSED_BEGINNINGS):
        raise ArgumentRefused(f"The header {shown(name)} may not be set.")
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise ArgumentRefused(f"The value of the header {shown(name)} must be printable ASCII on one line.")
