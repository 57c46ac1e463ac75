"""The bridge to a remote MCP server: lines from the host are requests, and answers are lines to it."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from kagura_kernel.testing.loopback_listener import LoopbackListener
from kagura_kernel.tools.bridge import remote
from kagura_kernel.tools.bridge.remote import Place, Unusable

Answer = Callable[["Request"], None]
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
BEGUN = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18"}}


class Request(BaseHTTPRequestHandler):
    """One request, answered by the test's own function."""

    def do_POST(self) -> None:
        self.message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), self.message))  # type: ignore[attr-defined]
        self.server.answer(self)  # type: ignore[attr-defined]

    def do_DELETE(self) -> None:
        self.server.seen.append((self.path, dict(self.headers), "DELETE"))  # type: ignore[attr-defined]
        self.say(b"", status=200)

    def say(self, body: bytes, kind: str = "application/json", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def result(self, result: Any, **headers: str) -> None:
        self.say(json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode(), **headers)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


class Bridged:
    """A bridge in a thread, and the host's end of its connection."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._host, theirs = socket.socketpair()
        self._lines = self._host.makefile("rb")
        self._thread = threading.Thread(target=self._serve, args=(theirs, url, headers))
        self._thread.start()

    def _serve(self, connection: socket.socket, url: str, headers: dict[str, str]) -> None:
        with connection:
            self.code = remote.serve(connection, url, headers, 5.0)

    def say(self, **message: Any) -> None:
        self._host.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def hear(self) -> Any:
        return json.loads(self._lines.readline())

    def ask(self, number: int, method: str) -> Any:
        self.say(id=number, method=method, params={})
        return self.hear()

    def end(self) -> None:
        self._host.shutdown(socket.SHUT_WR)
        self._thread.join()
        self._lines.close()
        self._host.close()


@pytest.fixture
def server() -> Iterator[Any]:
    listener: Any = LoopbackListener(Request)
    listener.seen = []
    listener.url = f"http://127.0.0.1:{listener.server_address[1]}/mcp?of=me"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield listener
    listener.shutdown()
    thread.join()
    listener.server_close()


@pytest.fixture
def bridge(server: Any) -> Iterator[Bridged]:
    bridged = Bridged(server.url, {"X-Team": "blue"})
    yield bridged
    bridged.end()


def well(request: Request) -> None:
    """A server that does as the protocol says."""
    if "id" not in request.message:
        request.say(b"", status=202)
    elif request.message["method"] == "initialize":
        request.result({"protocolVersion": "2025-06-18"}, Mcp_Session_Id="s-1")
    else:
        request.result(request.message["method"])


def test_a_session_is_begun_kept_and_ended(server):
    server.answer = well
    bridge = Bridged(server.url, {"X-Team": "blue"})
    assert bridge.ask(1, "initialize") == BEGUN
    bridge.say(method="notifications/initialized")
    assert bridge.ask(2, "tools/list")["result"] == "tools/list"
    bridge.end()
    paths, headers, messages = zip(*server.seen, strict=True)
    assert set(paths) == {"/mcp?of=me"}
    assert [message if message == "DELETE" else message["method"] for message in messages] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "DELETE",
    ]
    assert {one["X-Team"] for one in headers} == {"blue"}
    assert [one.get("Mcp-Session-Id") for one in headers] == [None, "s-1", "s-1", "s-1"]
    assert headers[2]["MCP-Protocol-Version"] == "2025-06-18"
    assert bridge.code == 0


def test_a_stream_of_events_is_told_as_it_comes(server, bridge):
    def answer(request: Request) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "a\u2028b"}}
        told = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": 1}, indent=1)
        lines = "".join(f"data: {line}\n" for line in told.splitlines())
        body = f": hello\r\nevent: message\r\ndata:{json.dumps(note, ensure_ascii=False)}\r\n\r\n{lines}\n"
        request.say(body.encode(), kind="text/event-stream")

    server.answer = answer
    assert bridge.ask(7, "tools/call")["params"] == {"data": "a\u2028b"}
    assert bridge.hear() == {"jsonrpc": "2.0", "id": 7, "result": 1}


def test_a_session_that_the_server_forgot_is_begun_again_once(server, bridge):
    known = ["s-1"]

    def answer(request: Request) -> None:
        if request.message["method"] != "initialize" and request.headers["Mcp-Session-Id"] != known[-1]:
            request.say(b"no such session", status=404)
        elif request.message["method"] == "initialize":
            request.result({"protocolVersion": "2025-06-18"}, Mcp_Session_Id=known[-1])
        else:
            well(request)

    server.answer = answer
    assert bridge.ask(1, "initialize") == BEGUN
    known.append("s-2")
    assert bridge.ask(2, "tools/list") == {"jsonrpc": "2.0", "id": 2, "result": "tools/list"}
    assert [message["method"] for _, _, message in server.seen] == [
        "initialize",
        "tools/list",
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]
    server.answer = lambda request: request.say(b"never", status=404)
    assert "HTTP 404" in bridge.ask(3, "tools/list")["error"]["message"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda request: request.say(b"who\x1b are you", status=401), "HTTP 401 Unauthorized: who are you"),
        (lambda request: request.say(b"<html>", kind="text/html"), "answered with text/html in place of JSON"),
        (lambda request: request.say(b"{"), "answered with what is no JSON"),
        (lambda request: request.say(b"[" * 100_000), "answered with what is no JSON"),
        (lambda request: request.say(b'{"id": 99}'), "ended its answer without one to what it was asked"),
        (lambda request: request.say(b": nothing\n\n", kind="text/event-stream"), "ended its answer without one"),
        (lambda request: request.say(b"x" * (remote.MOST + 1)), "answered with more than 4 MiB"),
        (
            lambda request: request.say(b"data: " + b"x" * (remote.MOST + 1), kind="text/event-stream"),
            "answered with more than 4 MiB",
        ),
        (lambda request: request.connection.close(), "could not be asked"),
        (lambda request: request.say(b"", status=307, Location="https://example.org/"), "HTTP 307"),
    ],
)
def test_what_is_no_answer_is_an_error_with_words_and_the_bridge_stays(server, bridge, answer, why):
    server.answer = answer
    told = bridge.ask(5, "tools/call")
    assert told["id"] == 5
    assert why in told["error"]["message"]
    server.answer = well
    assert bridge.ask(6, "tools/call")["result"] == "tools/call"


def test_a_redirect_on_the_same_server_is_followed(server, bridge):
    def answer(request: Request) -> None:
        if request.path.endswith("/"):
            well(request)
        else:
            request.say(b"", status=308, Location="/mcp/")

    server.answer = answer
    assert bridge.ask(1, "tools/list")["result"] == "tools/list"
    assert bridge.ask(2, "tools/list")["result"] == "tools/list"
    assert [path for path, _, _ in server.seen] == ["/mcp?of=me", "/mcp/", "/mcp/"]


@pytest.mark.parametrize("url", ["http://example.org/", "ftp://127.0.0.1/", "https:///x", "file:///etc/passwd"])
def test_nothing_is_sent_to_what_is_neither_https_nor_the_own_loopback(url):
    with pytest.raises(Unusable):
        Place(url)


def test_without_a_proxy_there_is_no_way_out(monkeypatch):
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    bridge = Bridged("https://example.org/mcp", {})
    assert "this box has no network" in bridge.ask(1, "initialize")["error"]["message"]
    bridge.end()
