"""An archive from an HTTPS address: nothing else, no more than is allowed, and never by way of plain HTTP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kagura_kernel.plugins.archives import MAX_ARCHIVE_BYTES, NotUnpacked

if TYPE_CHECKING:
    import httpx

NOT_HTTPS = "is fetched over HTTPS alone"
MAX_REDIRECTS = 5
MAX_SECONDS = 300.0
"""How long an archive may take to arrive; each of its parts may take a tenth of that."""
_SECONDS = 30.0
_OK = 200


def fetch_archive(url: str, transport: httpx.BaseTransport | None = None) -> bytes:
    """The bytes behind a URL.

    Args:
        url: `https://…`, without a user name in it.
        transport: What carries the requests; None is the network.

    Raises:
        NotUnpacked: it cannot be fetched, is too large, or leads away from HTTPS.
    """
    import httpx

    try:
        with httpx.Client(timeout=_SECONDS, follow_redirects=False, transport=transport) as client:
            address = httpx.URL(url)
            for _ in range(MAX_REDIRECTS + 1):
                _check(address)
                with client.stream("GET", address) as response:
                    if response.next_request is None:
                        return _body(response)
                    address = response.next_request.url
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise NotUnpacked(f"cannot be fetched: {why}") from error
    raise NotUnpacked(f"leads on more than {MAX_REDIRECTS} times")


def _check(address: httpx.URL) -> None:
    if address.scheme != "https" or not address.host:
        raise NotUnpacked(NOT_HTTPS)
    if address.userinfo:
        raise NotUnpacked("has a user name in its address; it would stand in lists and logs")


def _body(response: httpx.Response) -> bytes:
    if response.status_code != _OK:
        raise NotUnpacked(f"cannot be fetched: the server answers {response.status_code} {response.reason_phrase}")
    data = bytearray()
    latest = time.monotonic() + MAX_SECONDS
    for part in response.iter_bytes():
        data += part
        if time.monotonic() > latest:
            raise NotUnpacked(f"takes longer than {MAX_SECONDS:g} s")
        if len(data) > MAX_ARCHIVE_BYTES:
            raise NotUnpacked(f"is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    return bytes(data)
