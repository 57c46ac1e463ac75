"""Which hosts a person has listed, the one form of URL that is asked for, and where a redirect leads. Pure.

`name` admits that name and every name below it, `*.x.y` exactly one label before `x.y` and not `x.y` itself. Anything
wider is refused, and so is whatever is no name of two labels or more: an address is never a host here.

Of a URL nothing is repaired. Two programs that read one in two ways are how a check is passed and another host is
reached, so whatever is not plain (escapes in the host, backslashes, a user name, a port, blanks) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .arguments import shown
from .faults import ArgumentRefused, ConfigRefused, NetworkRefused

MAX_HOST = 253
LEAST_LABELS = 2
ONE_LEVEL = "*."

MAX_URL = 2048
"""Characters of a URL."""

PORT = 443

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# What a C library would read as (a part of) an IPv4 address.
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII)
_SHAPE = re.compile(r"https://([^/?#]*)([^#]*)(?:#.*)?", re.ASCII | re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_SIGNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)


def is_host(host: str) -> bool:
    """Whether it is a name of two labels or more in its one spelling: lower case, ASCII, no dot at its end."""
    labels = host.split(".")
    return (
        len(host) <= MAX_HOST
        and len(labels) >= LEAST_LABELS
        and all(_LABEL.fullmatch(label) for label in labels)
        and not _NUMBER.fullmatch(labels[-1])
    )


class AllowList:
    """The hosts that a person has listed. Raises `ConfigRefused`: an entry is no name, or is wider than one level."""

    def __init__(self, entries: Iterable[str]) -> None:
        names: list[str] = []
        parents: set[str] = set()
        for entry in entries:
            host = entry.strip().lower()
            one_level = host.startswith(ONE_LEVEL)
            host = host.removeprefix(ONE_LEVEL)
            if not is_host(host):
                raise ConfigRefused(
                    f"{shown(entry)} is no host to allow. Write example.com for it and everything below it, or "
                    "*.example.com for one level; no address, port, path or wider wildcard."
                )
            if one_level:
                parents.add(host)
            else:
                names.append(host)
        self._names = frozenset(names)
        self._parents = frozenset(parents)

    def admits(self, host: str) -> bool:
        """Whether a host is listed; whatever is no host in its one spelling is not."""
        if not is_host(host):
            return False
        if host.partition(".")[2] in self._parents:
            return True
        labels = host.split(".")
        return any(".".join(labels[start:]) in self._names for start in range(len(labels)))


@dataclass(frozen=True, slots=True)
class Url:
    """Where a request goes."""

    host: str  # Lower case, two labels or more, no address
    target: str  # The path and the query, as they stand in the request's first line

    def __str__(self) -> str:
        return f"https://{self.host}{self.target}"


def parse_url(text: object) -> Url:
    """What a URL of guest code asks for; a fragment is dropped.

    Raises `ArgumentRefused`: it is no text, too long, or holds what no URL holds; `NetworkRefused`: it is no https://
    URL of a host by name on port 443, or carries a user name.
    """
    if not isinstance(text, str):
        raise ArgumentRefused(f"url must be a text, not {type(text).__name__}.")
    if not text or len(text) > MAX_URL:
        raise ArgumentRefused(f"url must have from 1 to {MAX_URL:,} characters.")
    if not _SIGNS.issuperset(text) or _ESCAPE.search(text):
        raise ArgumentRefused(
            f"{shown(text)} holds what no URL may hold. Percent-encode it; hosts are written in ASCII."
        )
    return _split(text)


def follow(base: Url, location: str) -> Url:
    """Where a redirect's `Location` leads. Raises `NetworkRefused`: it is nothing that may be asked for."""
    if not location or len(location) > MAX_URL or not _SIGNS.issuperset(location) or _ESCAPE.search(location):
        raise NetworkRefused
    if _SCHEME.match(location):
        return _split(location)
    if location.startswith("//"):
        return _split(f"https:{location}")
    plain = location.partition("#")[0]
    path, question, query = plain.partition("?")
    old_path, _, old_query = base.target.partition("?")
    if not path:
        kept = f"{question}{query}" if question else (f"?{old_query}" if old_query else "")
        return _bounded(Url(base.host, old_path + kept))
    if not path.startswith("/"):
        path = old_path.rpartition("/")[0] + "/" + path
    return _bounded(Url(base.host, _without_dots(path) + question + query))


def _split(text: str) -> Url:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise NetworkRefused
    host, colon, port = found[1].lower().partition(":")
    # A user name, an address in brackets and an escape are no part of a host either.
    if not is_host(host) or (colon and port != str(PORT)):
        raise NetworkRefused
    target = found[2] if found[2].startswith("/") else f"/{found[2]}"
    return _bounded(Url(host, target))


def _bounded(url: Url) -> Url:
    if len(str(url)) > MAX_URL:
        raise NetworkRefused
    return url


def _without_dots(path: str) -> str:
    """A path after RFC 3986, 5.2.4."""
    kept: list[str] = []
    parts = path.split("/")[1:]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
            continue
        if last:
            kept.append("")
    return "/" + "/".join(kept)
