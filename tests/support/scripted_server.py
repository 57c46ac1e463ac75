"""What scripted models on the loopback share: the script, a book of requests, and how answers go out.

A dialect (`model_server`, `openai_server`) says what its paths mean and what a turn looks like on its wire.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from kagura_kernel.testing.loopback_listener import LoopbackServer, OwnedListener
from tests.support.model_script import Answer, BrokenStream, ModelTurn, Refusal, Script, Silence

_SECRET_HEADERS = {"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"}


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request, without secrets."""

    method: str  # `POST`, `GET`, `HEAD`
    path: str  # With its query
    headers: Mapping[str, str]  # Names in lower case; the value of a header that carries a key is `(hidden)`
    body: Mapping[str, Any] = field(default_factory=dict)  # The JSON that was sent; empty if none
    side: bool = False  # Whether it was a call beside the conversation, which used up nothing of the script

    @property
    def system(self) -> str:
        """The system prompt, its blocks joined."""
        system = self.body.get("system", "")
        return system if isinstance(system, str) else "\n".join(block.get("text", "") for block in system)


class ScriptedServer(LoopbackServer):
    """A model that answers from a script; a context manager that may be entered once."""

    def __init__(self, script: Script) -> None:
        """A server that is not running yet.

        Args:
            script: What to answer; when a list is used up, the next request gets a 400 that says so.
        """
        super().__init__()
        self.requests: list[RecordedRequest] = []  # Everything that was asked, in order
        self._script = script
        self._next = 0
        self._lock = threading.Lock()

    @property
    def turns(self) -> list[RecordedRequest]:
        """The requests of the conversation itself, side calls and probes left out."""
        return [request for request in self.requests if request.method == "POST" and not request.side]

    # What follows is for the handler threads.

    @abstractmethod
    def admit(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers carries an accepted key."""

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """The next answer of the script, to a request with this body."""
        with self._lock:
            if callable(self._script):
                step: Any = self._script
            elif self._next < len(self._script):
                step = self._script[self._next]
                self._next += 1
            else:
                return Refusal(400, message=f"the script of {len(self._script)} step(s) is used up")
        answer: Answer = step(body) if callable(step) else step
        return answer


class ScriptedHandler(BaseHTTPRequestHandler, ABC):
    """Takes requests with JSON, and gives the answers of a script."""

    server: OwnedListener[Any]
    protocol_version = "HTTP/1.1"
    stream_headers: ClassVar[Mapping[str, str]]  # Beside the media type

    @abstractmethod
    def got(self) -> None:
        """Answer one GET or HEAD."""

    @abstractmethod
    def posted(self, body: Mapping[str, Any], size: int) -> None:
        """Answer one POST whose body had that many bytes."""

    @abstractmethod
    def message(self, turn: ModelTurn, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A turn in one piece."""

    @abstractmethod
    def error(self, refusal: Refusal) -> Mapping[str, Any]:
        """The body of an HTTP error."""

    @abstractmethod
    def pieces(self, turn: ModelTurn, body: Mapping[str, Any]) -> Sequence[str]:
        """A turn as server-sent events."""

    def write(self, text: str) -> None:
        """Send one piece of a stream at once."""
        self.wfile.write(text.encode())
        self.wfile.flush()

    def end_stream(self) -> None:
        """Say that a stream is whole; one that breaks lacks it, so that the client sees that it was cut."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Nothing is printed."""

    def do_HEAD(self) -> None:
        """As a GET, of which only the headers are sent."""
        self.got()

    def do_GET(self) -> None:
        """Nothing of it has to be read."""
        self.got()

    def do_POST(self) -> None:
        """Read the body, and pass it on where it is JSON."""
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            self.refuse(Refusal(400, message="the body is not JSON"))
            return
        self.posted(body, len(raw))

    def record(self, body: Mapping[str, Any], *, side: bool = False) -> Mapping[str, str]:
        """Keep the request without its secrets; its headers, as they came."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        shown = {name: "(hidden)" if name in _SECRET_HEADERS else value for name, value in headers.items()}
        self.server.owner.requests.append(RecordedRequest(self.command, self.path, shown, body, side))
        return headers

    def give(self, answer: Answer, body: Mapping[str, Any]) -> None:
        """Send an answer, as a stream where the request wanted one."""
        match answer:
            case Refusal():
                self.refuse(answer)
            case Silence():
                self.close_connection = True
                self.server.owner.wait_closing(None)
            case BrokenStream(turn):
                self._stream(turn, body, broken=True)
            case ModelTurn():
                if body.get("stream"):
                    self._stream(answer, body)
                else:
                    self.send_json(200, self.message(answer, body))

    def refuse(self, refusal: Refusal) -> None:
        """Send an HTTP error."""
        extra = {} if refusal.retry_after is None else {"retry-after": f"{refusal.retry_after:g}"}
        self.send_json(refusal.status, self.error(refusal), extra)

    def send_json(self, status: int, value: Mapping[str, Any], extra: Mapping[str, str] | None = None) -> None:
        """Send a value, with further headers where there are any."""
        self.send(status, json.dumps(value).encode(), {"content-type": "application/json", **(extra or {})})

    def send(self, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send bytes; of an answer to a HEAD only the headers."""
        self.send_response(status)
        for name, value in {**(headers or {}), "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, turn: ModelTurn, body: Mapping[str, Any], *, broken: bool = False) -> None:
        self.close_connection = True
        self.send_response(200)
        for name, value in {"content-type": "text/event-stream", **self.stream_headers}.items():
            self.send_header(name, value)
        self.end_headers()
        pieces = self.pieces(turn, body)
        for piece in pieces[: len(pieces) // 2] if broken else pieces:
            self.write(piece)
            if turn.delay and self.server.owner.wait_closing(turn.delay):
                return
        if not broken:
            self.end_stream()
