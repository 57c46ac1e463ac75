"""What a program says to the proxy cannot mean one host to the proxy and another one to whoever is behind it.

A box with walls, one granted server on the loopback of the host and a hidden one beside it: whatever is sent, the
hidden one hears nothing and the granted one hears at most the one request that was judged.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import re
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tornado.httpserver
import tornado.web
import tornado.websocket

if TYPE_CHECKING:
    from conftest import Proxy

SAY = r"""
import socket

def answer(words):
    client = socket.create_connection(("127.0.0.1", PORT), 60)
    data = b""
    try:
        client.sendall(words.encode("latin-1"))
        client.shutdown(socket.SHUT_WR)
        while part := client.recv(65536):
            data += part
    except ConnectionError:
        pass
    return data.decode("latin-1")

print(json.dumps({name: answer(words) for name, words in ARGS[0].items()}))
"""

# {me} is the granted server, {it} the hidden one.
REFUSED = {
    "two hosts, the hidden one last": "GET http://{me}/ HTTP/1.1\r\nHost: {me}\r\nHost: {it}\r\n\r\n",
    "two hosts, the hidden one first": "GET http://{me}/ HTTP/1.1\r\nHost: {it}\r\nHost: {me}\r\n\r\n",
    "a host that the URL does not name": "GET http://{me}/ HTTP/1.1\r\nHost: {it}\r\n\r\n",
    "two hosts in one header": "GET http://{me}/ HTTP/1.1\r\nHost: {me}, {it}\r\n\r\n",
    "no host": "GET http://{me}/ HTTP/1.1\r\nX: {it}\r\n\r\n",
    "a URL without a host": "GET / HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a user in the URL": "GET http://{me}@{it}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a password in the URL": "GET http://a:b@{me}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "an escaped user": "GET http://{me}%40{it}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a back-slash": "GET http://{it}\\@{me}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a fragment": "GET http://{me}#@{it}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "two ports": "GET http://{me}:{itsport}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a space in the line": "GET http://{me}/ http://{it}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a bare line feed": "GET http://{me}/ HTTP/1.1\nHost: {me}\n\n",
    "a header behind a bare line feed": "GET http://{me}/ HTTP/1.1\r\nX: a\nHost: {it}\r\nHost: {me}\r\n\r\n",
    "a header behind a bare return": "GET http://{me}/ HTTP/1.1\r\nX: a\rHost: {it}\r\nHost: {me}\r\n\r\n",
    "a folded host": "GET http://{me}/ HTTP/1.1\r\nHost: {me}\r\n\t{it}\r\n\r\n",
    "a space before the colon": "GET http://{me}/ HTTP/1.1\r\nHost : {it}\r\nHost: {me}\r\n\r\n",
    "a zero byte": "GET http://{me}/ HTTP/1.1\r\nHost: {me}\x00{it}\r\n\r\n",
    "a length and chunks": "POST http://{me}/ HTTP/1.1\r\nHost: {me}\r\nContent-Length: 4\r\n"
    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://{it}/ HTTP/1.1\r\nHost: {it}\r\n\r\n",
    "two lengths": "POST http://{me}/ HTTP/1.1\r\nHost: {me}\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n",
    "an unknown coding": "POST http://{me}/ HTTP/1.1\r\nHost: {me}\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "a coding twice": "POST http://{me}/ HTTP/1.1\r\nHost: {me}\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
    "a signed length": "POST http://{me}/ HTTP/1.1\r\nHost: {me}\r\nContent-Length: +4\r\n\r\nabcd",
    "the host taken out by Connection": "GET http://{me}/ HTTP/1.1\r\nHost: {me}\r\nConnection: Host\r\n\r\n",
    "HTTP/2 without a word before": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "an absolute URL of another scheme": "GET ftp://{me}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "https in a GET": "GET https://{me}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "TLS": "\x16\x03\x01\x00\x2a\x01\x00\x00\x26\x03\x03",
    "a CONNECT with a body": "CONNECT {me} HTTP/1.1\r\nHost: {me}\r\nContent-Length: 3\r\n\r\nabc",
    "a CONNECT in chunks": "CONNECT {me} HTTP/1.1\r\nHost: {me}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a CONNECT with two hosts": "CONNECT {me} HTTP/1.1\r\nHost: {me}\r\nHost: {it}\r\n\r\n",
    "a CONNECT with a user": "CONNECT {me}@{it} HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a CONNECT to a URL": "CONNECT http://{me}/ HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a CONNECT to a path": "CONNECT {me}/../{it} HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a CONNECT to a list": "CONNECT {me},{it} HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a CONNECT without a port": "CONNECT 127.0.0.1 HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a CONNECT to a port beyond all": "CONNECT 127.0.0.1:{wrapped} HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a CONNECT with a line end in the host": "CONNECT 127.0.0.1\r\nX: :{itsport} HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a small method": "connect {it} HTTP/1.1\r\nHost: {me}\r\n\r\n",
}
DENIED = {
    "the hidden server itself": "GET http://{it}/ HTTP/1.1\r\nHost: {it}\r\n\r\n",
    "a CONNECT to it, with the granted one as its host": "CONNECT {it} HTTP/1.1\r\nHost: {me}\r\n\r\n",
    "a CONNECT to it, with more about the granted one": "CONNECT {it} HTTP/1.1\r\nHost: {it}\r\n"
    "Forwarded: host={me}\r\nX-Forwarded-Host: {me}\r\nX-Original-Host: {me}\r\n\r\n",
}
# What goes on is one request, whatever follows; how much of an answer comes back before the end depends on the moment.
ONCE = {
    "a second request": "GET http://{me}/one HTTP/1.1\r\nHost: {me}\r\n\r\n"
    "GET http://{it}/ HTTP/1.1\r\nHost: {it}\r\n\r\n",
    "a second request behind a body": "POST http://{me}/one HTTP/1.1\r\nHost: {me}\r\nContent-Length: 2\r\n\r\nok"
    "GET http://{it}/ HTTP/1.1\r\nHost: {it}\r\n\r\n",
    "a second request behind chunks": "POST http://{me}/one HTTP/1.1\r\nHost: {me}\r\n"
    "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nGET http://{it}/ HTTP/1.1\r\nHost: {it}\r\n\r\n",
    "a chunk with an extension": "POST http://{me}/one HTTP/1.1\r\nHost: {me}\r\nTransfer-Encoding: chunked\r\n\r\n"
    "2;x=\nhidden\r\nok\r\n0\r\n\r\n",
    "a trailer": "POST http://{me}/one HTTP/1.1\r\nHost: {me}\r\nTransfer-Encoding: chunked\r\n\r\n"
    "0\r\nHost: {it}\r\n\r\n",
}
GOOD = {
    "a request": "GET http://{me}/one HTTP/1.1\r\nHost: {me}\r\nProxy-Authorization: Basic eDp5\r\n"
    "Proxy-Connection: close\r\nConnection: X-Mine\r\nX-Mine: 1\r\nUpgrade: h2c\r\n\r\n",
    "a tunnel": "CONNECT {me} HTTP/1.1\r\nHost: {me}\r\nProxy-Authorization: Basic eDp5\r\n\r\n"
    "GET /one HTTP/1.1\r\nHost: {me}\r\n\r\n",
}


@dataclass
class Heard:
    """What the two servers heard."""

    granted: list[bytes] = field(default_factory=list)  # Each connection's bytes
    hidden: int = 0  # How many came


@pytest.fixture
def scene(some_walls, proxying, serving) -> Callable[[], AsyncIterator[tuple[Proxy, Heard, dict[str, object]]]]:
    """A box, what the servers heard, and their names for the words above."""

    @asynccontextmanager
    async def open_scene() -> AsyncIterator[tuple[Proxy, Heard, dict[str, object]]]:
        heard = Heard()

        async def granted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            mine = len(heard.granted)
            heard.granted.append(b"")
            while data := await reader.read(65536):
                heard.granted[mine] += data
                if b"\r\n\r\n" in heard.granted[mine]:
                    break
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            await writer.drain()
            writer.write_eof()
            while data := await reader.read(65536):
                heard.granted[mine] += data

        async def hidden(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            del reader, writer
            heard.hidden += 1

        async with (
            serving(granted) as mine,
            serving(hidden) as its,
            proxying(f"127.0.0.1:{mine}", backend=some_walls()) as proxy,
        ):
            names = {"me": f"127.0.0.1:{mine}", "it": f"127.0.0.1:{its}", "itsport": its, "wrapped": mine + 65536}
            yield proxy, heard, names

    return open_scene


def filled(words: dict[str, str], names: dict[str, object]) -> dict[str, str]:
    return {name: text.format(**names) for name, text in words.items()}


async def test_what_could_be_read_in_two_ways_reaches_nobody(scene):
    async with scene() as (proxy, heard, names):
        answers = await proxy.python(SAY, filled(REFUSED, names))
        assert (heard.granted, heard.hidden, proxy.records) == ([], 0, [])
        good = await proxy.python(SAY, filled(GOOD, names))
    statuses = {name: answer[:13] for name, answer in answers.items()}
    allowed = {"HTTP/1.1 400 ", "HTTP/1.1 505 "}
    assert {name: status for name, status in statuses.items() if status not in allowed} == {}
    assert [name for name, answer in answers.items() if len(re.findall("^HTTP/1.1 ", answer, re.MULTILINE)) != 1] == []
    assert all(answer.endswith("hello") for answer in good.values()), good


async def test_a_host_in_a_header_opens_no_other_host(scene):
    async with scene() as (proxy, heard, names):
        answers = await proxy.python(SAY, filled(DENIED, names))
        assert (heard.granted, heard.hidden) == ([], 0)
        assert {fact.allowed for fact in proxy.records} == {False}
    assert {answer[:13] for answer in answers.values()} == {"HTTP/1.1 403 "}


async def test_one_connection_is_one_request_and_what_follows_it_reaches_nobody(scene):
    async with scene() as (proxy, heard, names):
        await proxy.python(SAY, filled(ONCE, names))
        assert heard.hidden == 0
        for bytes_heard in heard.granted:
            assert bytes_heard.count(b"HTTP/1.1\r\n") <= 1
            assert str(names["it"]).encode() not in bytes_heard
            assert b"hidden" not in bytes_heard


async def test_what_was_meant_for_the_proxy_ends_at_the_proxy(scene):
    async with scene() as (proxy, heard, names):
        for name, words in filled(GOOD, names).items():
            answers = await proxy.python(SAY, {name: words})
            assert answers[name].endswith("hello")
    plain, tunnelled = heard.granted
    assert plain == f"GET /one HTTP/1.1\r\nHost: {names['me']}\r\nConnection: close\r\n\r\n".encode()
    assert tunnelled == f"GET /one HTTP/1.1\r\nHost: {names['me']}\r\n\r\n".encode()


CURL = "curl --silent --show-error --max-time 60 --write-out ' %{http_code}' --noproxy '' "


@pytest.mark.parametrize(
    "place", ["http://{it}/", "http://127.0.0.1:80/", "http://169.254.169.254/latest/meta-data/", "https://a.example/"]
)
async def test_a_redirect_is_followed_to_nowhere_that_is_not_granted(place, some_walls, proxying, serving):
    heard = []

    async def hidden(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader, writer
        heard.append("hidden")

    async with serving(hidden) as its:
        location = place.format(it=f"127.0.0.1:{its}")

        async def redirects(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            heard.append(head.split(b" ")[1].decode())
            there = "/again" if head.startswith(b"GET /first ") else location
            answer = f"HTTP/1.1 302 Found\r\nLocation: {there}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            writer.write(answer.encode())
            await writer.drain()

        async with serving(redirects) as port, proxying(f"127.0.0.1:{port}", backend=some_walls()) as proxy:
            for way in ("", "--proxytunnel "):
                heard.clear()
                result = await proxy.sh(f"{CURL} {way} --location http://127.0.0.1:{port}/first")
                # A redirect to the granted host itself is followed; the one from there is refused.
                assert heard == ["/first", "/again"]
                assert "403" in result.stdout.text + result.stderr.text
            assert {allowed for host, where, allowed in proxy.verdicts() if (host, where) != ("127.0.0.1", port)} == {
                False
            }
            assert len(proxy.verdicts()) == 2


# A client of RFC 6455 in a tunnel: the handshake, then a masked message, and what comes back.
WEBSOCKET = r"""
import base64, hashlib, os, socket

target = b"127.0.0.1:%d" % ARGS[0]
client = socket.create_connection(("127.0.0.1", PORT), 60)

def head():
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        if not byte:
            break
        data += byte
    return data.decode()

client.sendall(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, target))
found = [head().split(" ")[1]]
if found == ["200"]:
    key = base64.b64encode(os.urandom(16))
    client.sendall(b"GET /echo HTTP/1.1\r\nHost: %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n" % (target, key))
    answer = head()
    found.append(answer.split(" ")[1])
    expected = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
    found.append(expected in answer)
    for words in (b"hello", b"x" * 60000):
        mask = os.urandom(4)
        size = bytes([0x80 | len(words)]) if len(words) < 126 else b"\xfe" + len(words).to_bytes(2, "big")
        client.sendall(b"\x81" + size + mask + bytes(sign ^ mask[at % 4] for at, sign in enumerate(words)))
        said = client.recv(2, socket.MSG_WAITALL)
        length = said[1] if said[1] < 126 else int.from_bytes(client.recv(2, socket.MSG_WAITALL), "big")
        found.append(client.recv(length, socket.MSG_WAITALL) == words)
print(json.dumps(found))
"""


class Echo(tornado.websocket.WebSocketHandler):
    """Every message back."""

    def on_message(self, message: str | bytes) -> None:
        self.write_message(message)


async def test_a_websocket_passes_through_a_tunnel_to_a_granted_host_and_to_no_other(walls, proxying):
    application = tornado.web.Application([("/echo", Echo)])
    servers = [tornado.httpserver.HTTPServer(application) for _ in range(2)]
    ports = []
    for server in servers:
        (socket,) = tornado.netutil.bind_sockets(0, "127.0.0.1")
        server.add_socket(socket)
        ports.append(socket.getsockname()[1])
    try:
        async with proxying(f"127.0.0.1:{ports[0]}", backend=walls()) as proxy:
            assert await proxy.python(WEBSOCKET, ports[0]) == ["200", "101", True, True, True]
            assert await proxy.python(WEBSOCKET, ports[1]) == ["403"]
    finally:
        for server in servers:
            server.stop()
            await server.close_all_connections()


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, GOAWAY = b"\0\0\0\4\0\0\0\0\0", b"\0\0\x08\7\0\0\0\0\0\0\0\0\0\0\0\0\0"


async def test_http_2_with_prior_knowledge_passes_through_a_tunnel_unchanged(walls, proxying, serving):
    heard = []

    async def speaks_h2(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readexactly(len(PREFACE) + 9))
        writer.write(SETTINGS + GOAWAY)
        await writer.drain()

    async with serving(speaks_h2) as port, proxying(f"127.0.0.1:{port}", backend=walls()) as proxy:
        curl = f"curl --silent --show-error --noproxy '' --max-time 60 --http2-prior-knowledge http://127.0.0.1:{port}/"
        await proxy.sh(f"{curl} --proxytunnel")
        said, *_ = heard  # A newer curl asks once more after the end.
        assert said.startswith(PREFACE)
        assert said[len(PREFACE) + 3] == 4  # settings come first


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[int]:
    """A git server on the loopback with one repository, `small`: its port."""
    work, bare = tmp_path / "work", tmp_path / "served" / "small"
    run = functools.partial(subprocess.run, check=True, capture_output=True)
    run(["git", "init", "--quiet", str(work)])
    (work / "hello.txt").write_text("hello from a repository\n")
    run(["git", "add", "."], cwd=work)
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@a.example"]
    run(["git", *who, "commit", "--quiet", "--message", "First"], cwd=work)
    run(["git", "clone", "--quiet", "--bare", str(work), str(bare)])
    run(["git", "update-server-info"], cwd=bare)

    class Files(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(bare.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


async def test_git_clones_from_a_granted_host_and_says_the_status_for_another(forge, walls, proxying):
    line = "rm -rf $HOME/small && cd $HOME && git clone --quiet http://{}/small && cat small/hello.txt"
    names = {"git.test": [["127.0.0.1"]]}
    async with proxying(f"git.test:{forge}", f"127.0.0.1:{forge}", names=names, backend=walls()) as proxy:
        result = await proxy.sh(line.format(f"git.test:{forge}"))
        assert result.stdout.text == "hello from a repository\n", result.stderr.text
        result = await proxy.sh(line.format("other.test"))
        assert not result.ok
        assert "403" in result.stderr.text
        assert ("other.test", 80, False) in proxy.verdicts()
