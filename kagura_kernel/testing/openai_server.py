"""A model on the loopback that speaks the OpenAI-compatible APIs (chat completions, responses), from a script.

What runs against OpenAI, Ollama, LM Studio or vLLM runs against it without the internet::

    with OpenAIServer([calls("bash", {"command": "ls"}), says("Three files.")]) as server:
        endpoint = server.url  # http://127.0.0.1:…/v1

Scripts are those of `testing.model_script`. It runs in threads of its own and listens on 127.0.0.1 at a free port. It
keeps what it was sent, never a key.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from kagura_kernel.testing.loopback_listener import LoopbackListener
from kagura_kernel.testing.model_script import Answer, BrokenStream, ModelTurn, Refusal, Script, Silence
from kagura_kernel.testing.model_server import RecordedRequest
from kagura_kernel.testing.openai_wire import chunks, completion, error_body
from kagura_kernel.testing.responses_wire import as_chat, stream_events

_SECRET_HEADERS = {"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"}


class OpenAIServer:
    """A scripted chat-completions API; a context manager that may be entered once.

    Attributes:
        requests: Everything that was asked, in order.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        key: str = "",
        models: Sequence[str] = ("scripted",),
        tells_usage: bool = True,
        moved_to: str = "",
    ) -> None:
        """A server that is not running yet.

        Args:
            script: What to answer; when a list is used up, the next request gets a 400 that says so.
            key: The only key that is accepted; empty accepts any and none, as a server on one's own machine does.
            models: What it says that it has.
            tells_usage: Whether it tells how many tokens were used.
            moved_to: Where it sends whoever asks for an answer, instead of answering; empty for nowhere.
        """
        self.requests: list[RecordedRequest] = []
        self.models = tuple(models)
        self.tells_usage = tells_usage
        self.moved_to = moved_to
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
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="openai-server")
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
        """The base URL, with the `/v1` that such services have."""
        if self._server is None:
            message = "the model server is not running; use it in a `with` statement"
            raise RuntimeError(message)
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def turns(self) -> list[RecordedRequest]:
        """The requests of the conversation itself."""
        return [request for request in self.requests if request.method == "POST"]

    # What follows is for the handler threads.

    def admit(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers carries an accepted key."""
        return self._key in ("", headers.get("authorization", "").removeprefix("Bearer "))

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
    def __init__(self, owner: OpenAIServer) -> None:
        super().__init__(_Handler)
        self.owner = owner


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Nothing is printed."""

    def do_GET(self) -> None:
        headers = self._record({})
        if not self.server.owner.admit(headers):
            self._refuse(Refusal(401))
        elif urlsplit(self.path).path == "/v1/models":
            self._send_json(200, {"object": "list", "data": [{"id": name} for name in self.server.owner.models]})
        else:
            self._refuse(Refusal(404, message="there is nothing here"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            self._refuse(Refusal(400, message="the body is not JSON"))
            return
        path = urlsplit(self.path).path
        responses = path == "/v1/responses"
        headers = self._record(as_chat(body) if responses else body)
        if self.server.owner.moved_to:
            self._send(307, b"", {"location": self.server.owner.moved_to})
        elif not self.server.owner.admit(headers):
            self._refuse(Refusal(401))
        elif path != "/v1/chat/completions" and not responses:
            self._refuse(Refusal(404, message="there is nothing here"))
        else:
            self._give(self.server.owner.answer(self.server.owner.requests[-1]), body)

    def _record(self, body: Mapping[str, Any]) -> Mapping[str, str]:
        headers = {name.lower(): value for name, value in self.headers.items()}
        shown = {name: "(hidden)" if name in _SECRET_HEADERS else value for name, value in headers.items()}
        self.server.owner.requests.append(RecordedRequest(self.command, self.path, shown, body))
        return headers

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
                    self._send_json(200, completion(answer, body))

    def _refuse(self, refusal: Refusal) -> None:
        extra = {} if refusal.retry_after is None else {"retry-after": f"{refusal.retry_after:g}"}
        self._send_json(refusal.status, error_body(refusal), extra)

    def _stream(self, turn: ModelTurn, body: Mapping[str, Any], *, broken: bool = False) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if "input" in body:
            found = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in stream_events(turn, body)]
        else:
            told = self.server.owner.tells_usage
            found = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks(turn, body, tells_usage=told)]
        for text in found[: len(found) // 2] if broken else found:
            self._write(text)
            if turn.delay and self.server.owner.wait_closing(turn.delay):
                return
        # A stream that breaks lacks its end, so that the client sees that it was cut.
        if not broken:
            self._write("data: [DONE]\n\n")
            self._write("")

    def _write(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send_json(self, status: int, value: Mapping[str, Any], extra: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"content-type": "application/json", **(extra or {})})

    def _send(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
