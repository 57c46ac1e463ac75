"""Small documents over HTTPS: bounded in bytes, time and redirects, and never by way of plain HTTP.

Where an answer may lead whoever asked: to the host that a person named, or to the public network.

The person's own network may answer a stranger's question because of where it comes from. So a host that only an answer
names (a redirect, a token service, a list of files) is looked at twice: by its name, and by the address that was really
connected to, before anything is said to it. Behind a proxy the name is all that can be seen; what it reaches is the
proxy's to decide.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Self

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.kit.definitions.document import MAX_BYTES
from kagura_kernel.membrane.egress.hosts import why_refused

if TYPE_CHECKING:
    import httpx


_HERE = "localhost"
_FOLLOWED = "and is followed to public hosts and its own alone"


Watch = Callable[[str, Mapping[str, Any]], None]
"""Hears of one step of a request, as the library that makes it tells it."""


class LeadsInside(Exception):
    """An answer leads to what is no public host; the text is half a sentence without the address."""


class Redirects:
    """What may be asked because of an answer.

    Args:
        asked: The host that a person named, or their settings; it may be asked wherever it is.
    """

    def __init__(self, asked: str) -> None:
        self._asked = _plain(asked)

    def check(self, host: str) -> None:
        """Look at a host's name before it is looked up.

        Raises:
            LeadsInside: it is no public one.
        """
        name = _plain(host)
        if name != self._asked and (name == _HERE or name.endswith(f".{_HERE}")):
            raise LeadsInside(f"it leads to this machine itself, {_FOLLOWED}")
        self._check_address(name, name)

    def watch(self, host: str) -> Watch:
        """What hears of the connections of a request to a host, and looks at those that go straight there.

        Called with an event it raises `LeadsInside`: it was connected to what is no public address; nothing was said
        there.
        """
        name = _plain(host)
        straight = False

        def hear(event: str, told: Mapping[str, Any]) -> None:
            nonlocal straight
            if event.endswith(".connect_tcp.started"):
                to = told["host"]
                straight = _plain(to.decode("ascii") if isinstance(to, bytes) else to) == name
            elif straight and event.endswith(".connect_tcp.complete"):
                stream = told["return_value"]
                try:
                    self._check_address(name, stream.get_extra_info("server_addr")[0])
                except LeadsInside:
                    stream.close()
                    raise

        return hear

    def _check_address(self, name: str, address: str) -> None:
        if name == self._asked:
            return
        try:
            found = ip_address(address)
        except ValueError:
            return
        if why := why_refused(found):
            raise LeadsInside(f"it leads to an address that is not public ({why}), {_FOLLOWED}")


def _plain(host: str) -> str:
    """A host by one name, this machine too."""
    name = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    return _HERE if is_loopback(name) else name


MAX_REDIRECTS = 5
MAX_SECONDS = 10.0
"""How long one document may take, with all its redirects."""
MAX_ALL_SECONDS = 30.0
"""How long all documents of one agent may take together."""
# What is said to a host that a redirect leads to; everything else was meant for the first one.
_EVERYWHERE = ("accept", "accept-encoding")
_NUMBER = re.compile(r"^\[Errno -?\d+\] ")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class NotFetched(Exception):
    """A document could not be had; the text is a clause behind "could not be fetched"."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int  # Of the answer that led nowhere else
    body: bytes  # All of it
    headers: Mapping[str, str] = field(default_factory=dict)  # Lower-case names; the last one of a name
    host: str = ""  # Who answered, `HOST[:PORT]`

    @property
    def ok(self) -> bool:
        """Whether it is the document."""
        return self.status == 200  # noqa: PLR2004 - OK


class Fetcher:
    """What carries requests for definitions. Has no credentials of the person and keeps no cookies.

    Args:
        transport: What carries them; None is the network, with the proxies of the environment.
        seconds: How long one document may take, with all its redirects.
        all_seconds: How long all documents together may take, those of sub-agents too.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        seconds: float = MAX_SECONDS,
        all_seconds: float = MAX_ALL_SECONDS,
    ) -> None:
        self._transport = transport
        self._seconds = seconds
        self._left = all_seconds

    def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        named_by: str = "",
    ) -> Answer:
        """What a URL answers with. A redirect that leaves the host is asked for without the given headers.

        Args:
            url: `https://…`, or `http://` to this machine itself.
            headers: Beside the usual ones.
            query: Parameters to put behind the URL's own.
            named_by: The host whose answer named the URL; empty where a person did.

        Raises:
            NotFetched: nobody answers, it is too large or takes too long, or it leads away from HTTPS or to what is
                not public.
        """
        import httpx

        if self._left <= 0:
            raise NotFetched("all that was fetched before it has taken too long")
        began = time.monotonic()
        with Deadline(min(self._seconds, self._left)) as deadline:
            try:
                address = _address(url).copy_merge_params(dict(query or {}))
                redirects = Redirects(named_by or address.host)
                with http_client(self._transport, self._seconds) as client:
                    said = {"accept-encoding": "identity", **(headers or {})}
                    return _follow(client, address, said, deadline, redirects)
            except LeadsInside as error:
                raise NotFetched(str(error)) from error
            # The last but one for a host whose xn-- part stands for no name.
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, NoClient) as error:
                if deadline.over:
                    raise NotFetched(_too_long(deadline)) from error
                raise NotFetched(_words(error)) from error
            finally:
                self._left -= time.monotonic() - began


class NoClient(Exception):
    """This process's variables for proxies or certificates cannot be used; the text is half a sentence."""


def http_client(transport: httpx.BaseTransport | None, seconds: float) -> httpx.Client:
    """What asks, by the proxies and the certificates that the process's variables name; follows nothing by itself.

    Raises:
        NoClient: they cannot be used.
    """
    import httpx

    try:
        return httpx.Client(timeout=seconds, follow_redirects=False, transport=transport)
    except (OSError, ValueError) as error:
        # Not the library's words: an address of a proxy may hold a password.
        raise NoClient("SSL_CERT_FILE, SSL_CERT_DIR or a proxy's variable names what cannot be used") from error


class Deadline:
    """Ends the connections of a request when its time is over, even one that brings a byte now and then.

    A context manager, for the thread that makes the request.

    Args:
        seconds: From when it is entered.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds  # As given
        self._latest = 0.0
        self._turn = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._latest = time.monotonic() + self.seconds
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._turn:
            self._sockets.clear()

    @property
    def over(self) -> bool:
        """Whether there is no time left."""
        return time.monotonic() >= self._latest

    def extensions(self, watch: Watch) -> dict[str, Any]:
        """What a request is given so that its connections are known here, and looked at."""

        def trace(event: str, told: Mapping[str, Any]) -> None:
            watch(event, told)
            self._trace(event, told)

        return {"trace": trace}

    def _trace(self, event: str, told: Mapping[str, Any]) -> None:
        if not event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            return
        found = told["return_value"].get_extra_info("socket")
        if not isinstance(found, socket.socket):
            return
        with self._turn:
            self._sockets.append(found)
        if self.over:
            self._end()

    def _end(self) -> None:
        with self._turn:
            for one in self._sockets:
                # Not TLS's own farewell: whoever reads hears at once that there is no more.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, by one of its usual names."""
    return host in _LOOPBACK


def _follow(
    client: httpx.Client,
    address: httpx.URL,
    headers: Mapping[str, str],
    deadline: Deadline,
    redirects: Redirects,
) -> Answer:
    for _ in range(MAX_REDIRECTS + 1):
        client.cookies.clear()
        redirects.check(address.host)
        watching = deadline.extensions(redirects.watch(address.host))
        with client.stream("GET", address, headers=headers, extensions=watching) as response:
            if response.next_request is None:
                return _answer(response, deadline)
            before, address = address, _leads_to(address, response.next_request.url)
        if (before.scheme, before.host, before.port) != (address.scheme, address.host, address.port):
            headers = {name: headers[name] for name in _EVERYWHERE if name in headers}
        _in_time(deadline)
    raise NotFetched(f"it leads on more than {MAX_REDIRECTS} times")


def _address(url: str) -> httpx.URL:
    import httpx

    address = httpx.URL(url)
    if not address.host or not (address.scheme == "https" or (address.scheme == "http" and is_loopback(address.host))):
        raise NotFetched("it is fetched over HTTPS alone")
    if address.userinfo:
        raise NotFetched("its address holds a user name, which would stand in lists and logs")
    return address


def _leads_to(before: httpx.URL, address: httpx.URL) -> httpx.URL:
    """Where a redirect leads: to HTTPS, or to another path of the very server on this machine that was asked."""
    same = (before.scheme, before.host, before.port) == (address.scheme, address.host, address.port)
    if not same and (address.scheme != "https" or not address.host):
        raise NotFetched("it leads away from HTTPS")
    if address.userinfo:
        raise NotFetched("it leads to an address with a user name in it")
    return address


def _answer(response: httpx.Response, deadline: Deadline) -> Answer:
    data = bytearray()
    for part in response.iter_raw():
        data += part
        _in_time(deadline)
        if len(data) > MAX_BYTES:
            raise NotFetched(f"it is larger than {MAX_BYTES >> 10} KiB")
    # An answer without a length looks whole wherever it was ended.
    _in_time(deadline)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, bytes(data), headers, response.url.netloc.decode("ascii"))


def _in_time(deadline: Deadline) -> None:
    if deadline.over:
        raise NotFetched(_too_long(deadline))


def _too_long(deadline: Deadline) -> str:
    return f"it takes longer than {deadline.seconds:g} s"


def _words(error: Exception) -> str:
    """The library's own first line without numbers; never the URL's parameters, which are not in it."""
    return _NUMBER.sub("", str(error).splitlines()[0])[:200] if str(error) else type(error).__name__
