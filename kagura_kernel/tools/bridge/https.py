"""One request to a remote server, through the box's proxy, so that its egress policy decides."""

from __future__ import annotations

import http.client
import os
import ssl
from urllib.parse import urlsplit

TYPE_CHECKING = False

_HTTPS = 443
_HTTP = 80
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Unusable(ValueError):
    """A URL that nothing is sent to; the text says why."""


class Place:
    """Where a server is.

    Raises:
        Unusable: neither https nor a port of the box's own loopback.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""  # As it is looked up
        self.secure = parts.scheme == "https"  # Whether it is reached by TLS
        if not self.host or not (self.secure or (parts.scheme == "http" and self.host in _LOOPBACK)):
            raise Unusable("only https:// URLs are asked")
        self.port = parts.port or (_HTTPS if self.secure else _HTTP)  # TCP port
        self.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")  # With its query

    def moved(self, location: str) -> str | None:
        """The path of a redirect that stays on this server; None for one that leaves it."""
        parts = urlsplit(location)
        if parts.scheme or parts.netloc:
            try:
                other = Place(location)
            except ValueError:
                return None
            if (other.host, other.port, other.secure) != (self.host, self.port, self.secure):
                return None
            return other.path
        return location if location.startswith("/") else None


def ask(
    place: Place, method: str, path: str, body: bytes | None, headers: dict[str, str], seconds: float
) -> http.client.HTTPResponse:
    """Send a request; its response, whose body is still to be read. Closing the response closes the connection.

    Raises:
        OSError: it could not be reached, or the proxy said no.
        http.client.HTTPException: what answered does not speak HTTP.
        ValueError: a header cannot be sent.
    """
    proxy = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    connection: http.client.HTTPConnection
    if not place.secure:
        connection = http.client.HTTPConnection(place.host, place.port, timeout=seconds)
    elif proxy:
        through = urlsplit(proxy)
        connection = http.client.HTTPSConnection(
            through.hostname or "", through.port, timeout=seconds, context=ssl.create_default_context()
        )
        connection.set_tunnel(place.host, place.port)
    else:
        raise OSError("this box has no network, and no host was granted to it")
    connection.request(method, path, body, {**headers, "Accept-Encoding": "identity", "Connection": "close"})
    return connection.getresponse()
