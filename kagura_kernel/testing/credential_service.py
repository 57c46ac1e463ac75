"""A provider's API on the loopback, with books of its own and trouble on demand; the fakes are built on it.

It runs in threads and listens on 127.0.0.1 at a free port::

    with FakeCloudflare() as service:
        service.trouble(Trouble.BUSY)
"""

from __future__ import annotations

import json
import socket
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.membrane.credentials.provider import CredentialProvider, Scope
from kagura_kernel.membrane.credentials.secret import SecretReader
from kagura_kernel.testing.loopback_listener import LoopbackServer, OwnedListener


class Trouble(StrEnum):
    """What can go wrong with one request."""

    BUSY = "429 with `retry-after: 7`; nothing is done"
    BROKEN = "500; nothing is done"
    NOT_FOUND = "404; nothing is done"
    STALLED = "no answer until the client hangs up; nothing is done"
    LOST = "it is done, and the connection is cut before the answer"
    GARBLED = "it is done, and the answer is cut in the middle of its JSON or XML"


RETRY_AFTER = 7.0


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str  # `GET`, `POST`, `DELETE`
    path: str  # Without its query
    query: Mapping[str, str]  # The query's values
    headers: Mapping[str, str]  # Names in lower case
    body: bytes  # As it came

    @property
    def bearer(self) -> str:
        """The token of the `Authorization` header."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    def json(self) -> dict[str, Any]:
        """The body as JSON; empty when it is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    status: int = 200  # HTTP status
    body: Any = None  # A value becomes JSON, bytes stay as they are
    headers: Mapping[str, str] = field(default_factory=dict)  # Beside `Date` and `Content-Length`

    def data(self) -> bytes:
        """The body as bytes."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


_UNDONE: Mapping[Trouble, Reply] = {
    Trouble.BUSY: Reply(429, b"", {"retry-after": f"{RETRY_AFTER:g}"}),
    Trouble.BROKEN: Reply(500, b"trouble"),
    Trouble.NOT_FOUND: Reply(404, b""),
}


class LoopbackService(LoopbackServer):
    """Base of the fakes; a subclass says in `respond` what it answers. A context manager that may be entered once."""

    def __init__(self) -> None:
        super().__init__()
        self.skew = 0.0  # Seconds by which its clock differs from ours
        self.lock = threading.RLock()  # Held while `respond` runs, so that books need no lock of their own
        self._trouble: deque[Trouble] = deque()
        self._idle = threading.Condition()
        self._busy = 0

    @abstractmethod
    def respond(self, call: Call) -> Reply:
        """The answer to one request."""

    def undone(self, trouble: Trouble) -> Reply:
        """How it says that nothing was done."""
        return _UNDONE[trouble]

    def trouble(self, *kinds: Trouble) -> None:
        """Give the next requests this trouble, one each."""
        self._trouble.extend(kinds)

    def now(self) -> datetime:
        """Its own time."""
        return datetime.now(UTC) + timedelta(seconds=self.skew)

    def wait_idle(self) -> None:
        """Return when no request is being worked on: what a killed client sent has been done or dropped."""
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, timeout=30)

    def listen(self) -> OwnedListener[LoopbackService]:
        """Its listener, which counts who is being served."""
        return _Listener(self, _Handler)

    # What follows is for the handler threads.

    def begin(self, change: int) -> None:
        """Count who is being served."""
        with self._idle:
            self._busy += change
            self._idle.notify_all()

    def next_trouble(self, call: Call) -> Trouble | None:
        """The trouble of this request."""
        del call  # a fake may let some requests through
        with self.lock:
            return self._trouble.popleft() if self._trouble else None


class _Listener(OwnedListener[LoopbackService]):
    def process_request(self, request: Any, client_address: Any) -> None:
        # Counted before its thread begins, so that nobody sees the moment in between as idle.
        self.owner.begin(1)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.owner.begin(-1)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    timeout = 20

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Nothing is printed."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The service's own time."""
        del timestamp
        return format_datetime(self.server.owner.now(), usegmt=True)

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        owner = self.server.owner
        self.close_connection = True
        parts = urlsplit(self.path)
        call = Call(
            self.command,
            parts.path,
            {name: values[0] for name, values in parse_qs(parts.query).items()},
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(int(self.headers.get("content-length") or 0)),
        )
        trouble = owner.next_trouble(call)
        if trouble is not None and trouble in _UNDONE:
            self._send(owner.undone(trouble))
        elif trouble is Trouble.STALLED:
            self._until_hung_up()
        else:
            with owner.lock:
                reply = owner.respond(call)
            if trouble is Trouble.LOST:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if trouble is Trouble.GARBLED:
                reply = Reply(reply.status, reply.data()[: len(reply.data()) // 2], reply.headers)
            self._send(reply)

    def _until_hung_up(self) -> None:
        self.connection.settimeout(20)
        try:
            self.connection.recv(1)
        except OSError:
            return

    def _send(self, reply: Reply) -> None:
        data = reply.data()
        self.send_response(reply.status)
        for name, value in {"content-type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)


SCOPE = Scope("read")
"""What every rig has credentials for."""
PATIENCE = 30.0
"""Seconds."""
_SYSTEM = SystemClock()
Make = Callable[[SecretReader, Clock, float], CredentialProvider]


@dataclass(frozen=True, slots=True)
class ProviderRig:
    """A provider and its service: what its conformance suite is given."""

    service: LoopbackService  # the fake, running
    live: Callable[[], dict[str, str]]  # what works now by the service's own books: names by values
    make: Make  # the provider with a reader, a clock and a time-out
    secrets: dict[str, str]  # the right ones, by variable
    wrong: dict[str, str]  # look right and are not
    shown: str = "token"  # the part of a credential by which the books know it

    def provider(
        self, *, clock: Clock = _SYSTEM, timeout: float = PATIENCE, wrong_key: bool = False
    ) -> CredentialProvider:
        """The provider, with the right key unless a wrong one is asked for."""
        return self.make(SecretReader(self.wrong if wrong_key else self.secrets), clock, timeout)
