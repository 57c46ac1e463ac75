"""What passes through a tunnel to a granted host is that host's business: WebSockets, HTTP/2 and git work unchanged.

Boxes with walls, and servers on the loopback of the host.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import tornado.httpserver
import tornado.web
import tornado.websocket

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
        (said,) = heard
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
