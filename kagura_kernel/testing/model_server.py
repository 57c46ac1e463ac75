"""A model on the loopback: it speaks the Anthropic Messages API and answers from a script.

With `ANTHROPIC_BASE_URL` set to its `url` and any `ANTHROPIC_API_KEY`, the real Claude program runs end to end without
the internet::

    with ModelServer([calls("bash", {"command": "ls"}), says("Three files.")]) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "dummy"}

It runs in threads of its own and listens on 127.0.0.1 at a free port. It keeps what it was sent, never a key.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from kagura_kernel.testing.loopback_listener import LoopbackListener
from kagura_kernel.testing.model_script import Answer, BrokenStream, ModelTurn, Refusal, Script, Silence, says
from kagura_kernel.testing.model_wire import error_body, message_body, stream_events

_SECRET_HEADERS = {"authorization", "x-api-key", "cookie", "proxy-authorization"}


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request, without secrets.

    Attributes:
        method: `POST`, `GET`, `HEAD`.
        path: With its query.
        headers: Names in lower case; the value of a header that carries a key is `(hidden)`.
        body: The JSON that was sent; empty if none.
        side: Whether it was a call beside the conversation, which used up nothing of the script.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)
    side: bool = False

    @property
    def system(self) -> str:
        """The system prompt, its blocks joined."""
        system = self.body.get("system", "")
        return system if isinstance(system, str) else "\n".join(block.get("text", "") for block in system)


class ModelServer:
    """A scripted Messages API; a context manager that may be entered once.

    Attributes:
        requests: Everything that was asked, in order.
    """

    def __init__(self, script: Script = (), *, key: str = "") -> None:
        """A server that is not running yet.

        Args:
            script: What to answer; when a list is used up, the next request gets a 400 that says so.
            key: The only key or token that is accepted; empty accepts any, and none is a 401 always.
        """
        self.requests: list[RecordedRequest] = []
        self._script = script
        self._key = key
        self._next = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server: _Listener | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Listening when it returns."""
        self._server = _Listener(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="model-server")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Every connection is cut and every thread has ended when it returns."""
        self._closing.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.cut_connections()
            self._server.server_close()
            self._thread.join()

    @property
    def url(self) -> str:
        """For `ANTHROPIC_BASE_URL`."""
        if self._server is None:
            message = "the model server is not running; use it in a `with` statement"
            raise RuntimeError(message)
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def turns(self) -> list[RecordedRequest]:
        """The requests of the conversation itself, side calls and probes left out."""
        return [request for request in self.requests if request.method == "POST" and not request.side]

    # What follows is for the handler threads.

    def admit(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers carries an accepted key."""
        sent = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        return bool(sent) and self._key in ("", sent)

    def answer(self, request: RecordedRequest) -> Answer:
        """The next answer of the script."""
        with self._lock:
            if callable(self._script):
                step: Any = self._script
            elif self._next < len(self._script):
                step = self._script[self._next]
                self._next += 1
            else:
                return Refusal(400, message=f"the script of {len(self._script)} step(s) is used up")
        answer: Answer = step(request.body) if callable(step) else step
        return answer

    def wait_closing(self, seconds: float | None) -> bool:
        """Sleep, and say whether the server began to close meanwhile."""
        return self._closing.wait(seconds)


class _Listener(LoopbackListener):
    def __init__(self, owner: ModelServer) -> None:
        super().__init__(_Handler)
        self.owner = owner


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Nothing is printed."""

    def do_HEAD(self) -> None:
        self._record({}, side=True)
        self._send(200, b"")

    def do_GET(self) -> None:
        self._record({}, side=True)
        self._send_json(200, {"data": [], "has_more": False})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            self._refuse(Refusal(400, message="the body is not JSON"))
            return
        path = urlsplit(self.path).path
        side = path != "/v1/messages" or _beside_the_conversation(body)
        request = self._record(body, side=side)
        if not self.server.owner.admit(request.headers):
            self._refuse(Refusal(401))
        elif path == "/v1/messages/count_tokens":
            self._send_json(200, {"input_tokens": max(1, len(raw) // 4)})
        elif path != "/v1/messages":
            self._send_json(200, {})
        else:
            self._give(says("ok", output_tokens=1) if side else self.server.owner.answer(request), body)

    def _record(self, body: Mapping[str, Any], *, side: bool) -> RecordedRequest:
        headers = {name.lower(): value for name, value in self.headers.items()}
        shown = {name: "(hidden)" if name in _SECRET_HEADERS else value for name, value in headers.items()}
        self.server.owner.requests.append(RecordedRequest(self.command, self.path, shown, body, side))
        return RecordedRequest(self.command, self.path, headers, body, side)

    def _give(self, answer: Answer, body: Mapping[str, Any]) -> None:
        match answer:
            case Refusal():
                self._refuse(answer)
            case Silence():
                self.close_connection = True
                self.server.owner.wait_closing(None)
            case BrokenStream(turn):
                self._stream(turn, body, broken=True)
            case ModelTurn():
                if body.get("stream"):
                    self._stream(answer, body)
                else:
                    self._send_json(200, message_body(answer, body))

    def _refuse(self, refusal: Refusal) -> None:
        extra = {} if refusal.retry_after is None else {"retry-after": f"{refusal.retry_after:g}"}
        self._send_json(refusal.status, error_body(refusal), extra)

    def _stream(self, turn: ModelTurn, body: Mapping[str, Any], *, broken: bool = False) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.send_header("request-id", "req_scripted")
        self.end_headers()
        events = stream_events(turn, body)
        for event in events[: len(events) // 2] if broken else events:
            line = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            self.wfile.write(line.encode())
            self.wfile.flush()
            if turn.delay and self.server.owner.wait_closing(turn.delay):
                return

    def _send_json(self, status: int, value: Mapping[str, Any], extra: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"content-type": "application/json", **(extra or {})})

    def _send(self, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _beside_the_conversation(body: Mapping[str, Any]) -> bool:
    """Whether the program asks for its own sake (a quota probe, a title), which no script should answer."""
    return not body.get("stream") and not body.get("tools") and body.get("max_tokens") == 1
