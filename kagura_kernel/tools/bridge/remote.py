"""A remote MCP server: each line from the host is one POST, and each message that comes back is one line to the host.

Streamable HTTP as the protocol has it: an answer is JSON or a stream of events; a session is named in a header, and
one that the server has forgotten (404) is begun again, once for each request. Every request goes through the box's
proxy, so that its egress policy decides; server-sent events are read line by line, each bounded.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import threading
from http.client import HTTPException
from urllib.parse import urlsplit

from kagura_kernel.tools.bridge.messages import complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from http.client import HTTPResponse
    from typing import Any

MOST = 4 * 2**20
"""Bytes of one message."""

NOTE_SECONDS = 10.0
END_SECONDS = 0.3
FAILED = -32000
_GONE = 404
_MOVED = (307, 308)
_FINE = range(200, 300)
_SHOWN = 300


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
) -> HTTPResponse:
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


class TooLong(ValueError):
    """A line or an event holds more than it may."""


def events(readline: Callable[[int], bytes], most: int) -> Iterator[bytes]:
    """The data of each event, to the end of the stream; comments, names and ids are passed over.

    `readline` gives the next line with its end, at most so many bytes; empty at the end.

    Raises:
        TooLong: a line or an event is longer.
    """
    data: list[bytes] = []
    size = 0
    while True:
        line = readline(most + 16)
        if not line:
            return
        if not line.endswith(b"\n") and len(line) > most:
            raise TooLong
        line = line.rstrip(b"\r\n")
        if not line:
            if data:
                yield b"\n".join(data)
            data, size = [], 0
        elif line.startswith(b"data:"):
            # One blank after the colon belongs to the form.
            piece = line[6:] if line[5:6] == b" " else line[5:]
            size += len(piece) + 1
            if size > most:
                raise TooLong
            data.append(piece)


class Refused(Exception):
    """A request had no answer; the text says why, half a sentence."""


def serve(connection: socket.socket, url: str, headers: dict[str, str], seconds: float) -> int:
    """Carry messages until the host has no more: the exit code."""
    try:
        server = Server(Place(url), headers, seconds, connection)
    except ValueError as error:
        complain(str(error))
        return 1
    with connection.makefile("rb") as lines:
        for line in lines:
            server.take(json.loads(line))
    server.leave()
    return 0


class Server:
    """The server and the session with it."""

    def __init__(self, place: Place, headers: dict[str, str], seconds: float, connection: socket.socket) -> None:
        self._place = place
        self._path = place.path
        self._headers = headers
        self._seconds = seconds
        self._connection = connection
        self._sending = threading.Lock()
        self._beginning = threading.Lock()
        self._session = ""
        self._version = ""
        self._hello: dict[str, Any] = {}

    def take(self, message: dict[str, Any]) -> None:
        """Send one message of the host's; what asks for an answer does not keep others waiting."""
        if "method" in message and "id" in message:
            threading.Thread(target=self._request, args=(message,), daemon=True).start()
            return
        # In order: some servers answer nothing before they were told that the beginning is over.
        try:
            self._send(message, NOTE_SECONDS)
        except Refused as refused:
            complain(f"a notification was not taken: {refused}")

    def leave(self) -> None:
        """End the session, if the server hears of it in time."""
        if not self._session:
            return
        # Servers forget sessions by themselves.
        with contextlib.suppress(OSError, HTTPException, ValueError):
            ask(self._place, "DELETE", self._path, None, self._marked(), END_SECONDS).close()

    # ------------------------------------------------------------------ within

    def _request(self, message: dict[str, Any]) -> None:
        try:
            self._send(message, self._seconds)
        except Refused as refused:
            self._tell({"jsonrpc": "2.0", "id": message["id"], "error": {"code": FAILED, "message": str(refused)}})

    def _send(self, message: dict[str, Any], seconds: float) -> None:
        if message.get("method") == "initialize":
            self._hello = message
        session = self._session
        response = self._post(message, seconds)
        if response.status == _GONE and session:
            response.close()
            self._begin_again(session)
            response = self._post(message, seconds)
        with response:
            self._read(message, response)

    def _post(self, message: dict[str, Any], seconds: float) -> HTTPResponse:
        body = json.dumps(message, ensure_ascii=True).encode("ascii")
        first = message.get("method") == "initialize"
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **(self._headers if first else self._marked()),
        }
        try:
            response = ask(self._place, "POST", self._path, body, headers, seconds)
            moved = self._place.moved(response.headers.get("Location", "")) if response.status in _MOVED else None
            if moved is None:
                return response
            response.close()
            self._path = moved
            return ask(self._place, "POST", moved, body, headers, seconds)
        except (OSError, HTTPException, ValueError) as error:
            raise Refused(f"{self._place.host} could not be asked ({str(error) or type(error).__name__})") from error

    def _marked(self) -> dict[str, str]:
        headers = dict(self._headers)
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        return headers

    def _begin_again(self, forgotten: str) -> None:
        with self._beginning:
            if self._session != forgotten:
                return
            self._session = ""
            with self._post(self._hello, self._seconds) as response:
                self._note(self._hello, self._answer(self._hello, response)[0], response)
            self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, NOTE_SECONDS).close()

    def _read(self, message: dict[str, Any], response: HTTPResponse) -> None:
        wanted = message.get("id") if "method" in message else None
        if wanted is None:
            if response.status not in _FINE:
                raise Refused(self._words(response))
            return
        answer, others = self._answer(message, response)
        self._note(message, answer, response)
        for other in (*others, answer):
            self._tell(other)

    def _answer(self, message: dict[str, Any], response: HTTPResponse) -> tuple[dict[str, Any], list[Any]]:
        """The answer to a request, and what came as one list with it; notifications of a stream are told at once."""
        host = self._place.host
        if response.status not in _FINE:
            raise Refused(self._words(response))
        try:
            found = self._searched(message["id"], response)
        except TooLong as error:
            raise Refused(f"{host} answered with more than {MOST // 2**20} MiB") from error
        except (ValueError, RecursionError) as error:
            raise Refused(f"{host} answered with what is no JSON") from error
        except (OSError, HTTPException) as error:
            raise Refused(f"{host} broke off its answer ({str(error) or type(error).__name__})") from error
        if found is None:
            raise Refused(f"{host} ended its answer without one to what it was asked")
        return found

    def _searched(self, number: Any, response: HTTPResponse) -> tuple[dict[str, Any], list[Any]] | None:
        """As `_answer`, for whichever form the response has; None when the answer is not in it."""
        kind = response.headers.get_content_type()
        if kind == "text/event-stream":
            for data in events(response.readline, MOST):
                found, others = _sorted(json.loads(data), number)
                if found is not None:
                    return found, others
                for other in others:
                    self._tell(other)
            return None
        if kind != "application/json":
            raise Refused(f"{self._place.host} answered with {kind[:100]} in place of JSON")
        body = response.read(MOST + 1)
        if len(body) > MOST:
            raise TooLong
        found, others = _sorted(json.loads(body), number)
        return None if found is None else (found, others)

    def _note(self, message: dict[str, Any], answer: dict[str, Any], response: HTTPResponse) -> None:
        result = answer.get("result")
        if message.get("method") == "initialize" and isinstance(result, dict):
            self._session = response.headers.get("Mcp-Session-Id", "")
            self._version = str(result.get("protocolVersion", ""))

    def _words(self, response: HTTPResponse) -> str:
        told = f"{self._place.host} answered with HTTP {response.status} {response.reason}"
        try:
            body = response.read(_SHOWN).decode("utf-8", "replace")
        except (OSError, HTTPException):
            body = ""
        said = " ".join("".join(sign if sign.isprintable() else " " for sign in body).split())
        return f"{told}: {said}" if said else told

    def _tell(self, message: Any) -> None:
        # Escapes alone, so that no character in it can be taken for the end of a line.
        line = json.dumps(message, ensure_ascii=True).encode("ascii") + b"\n"
        try:
            with self._sending:
                self._connection.sendall(line)
        except OSError:
            # The host has gone, and so does this process, as soon as it is read.
            pass


def _sorted(said: Any, wanted: Any) -> tuple[dict[str, Any] | None, list[Any]]:
    """The answer to a request among what came at once, and the rest."""
    messages = said if isinstance(said, list) else [said]
    answers = [one for one in messages if isinstance(one, dict) and "method" not in one and one.get("id") == wanted]
    rest = [one for one in messages if one not in answers[:1]]
    return (answers[0] if answers else None), rest
