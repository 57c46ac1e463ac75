"""The program whose connections are measured: the same one in a box and on the host. Standard library only.

python client.py connect|many|download|request HOST PORT AMOUNT PROXY_PORT

Everything is timed here, from the first call for a connection on; one JSON value is printed. PROXY_PORT 0 connects
directly. AMOUNT is how many connections, or how many bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import time

TYPE_CHECKING = False  # typing is not needed to run, and the box shall start quickly
if TYPE_CHECKING:
    from typing import Any

PING = b"."
DOWNLOAD = b"D"
ROOM = 1024 * 1024
PATIENCE = 60.0
REST = 0.005
"""Seconds between connections: what the last one left to do is not what the next one costs."""


def connect(host: str, port: int, amount: int, proxy: int) -> list[float]:
    """One after the other: seconds until the first byte of the answer to the first byte."""
    took = []
    for _ in range(amount):
        began = time.perf_counter()
        with _opened(host, port, proxy) as connection:
            connection.sendall(PING)
            if connection.recv(1) != PING:
                raise OSError("the server did not answer")
            took.append(time.perf_counter() - began)
        time.sleep(REST)
    return took


def many(host: str, port: int, amount: int, proxy: int) -> dict[str, Any]:
    """All at once, and held until every one has had its answer: seconds for all, and how many had none."""
    return asyncio.run(_many(host, port, amount, proxy))


async def _many(host: str, port: int, amount: int, proxy: int) -> dict[str, Any]:
    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1" if proxy else host, proxy or port)
        writers.append(writer)
        if proxy:
            writer.write(_ask(host, port))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.split(b"\r\n")[0]:
                raise OSError(head.split(b"\r\n")[0].decode("latin-1"))
        writer.write(PING)
        await reader.readexactly(1)

    writers: list[asyncio.StreamWriter] = []
    began = time.perf_counter()
    done = await asyncio.gather(*(asyncio.wait_for(one(), PATIENCE) for _ in range(amount)), return_exceptions=True)
    took = time.perf_counter() - began
    for writer in writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    failed = [repr(result) for result in done if result is not None]
    return {"seconds": took, "failed": len(failed), "why": failed[:1]}


def download(host: str, port: int, amount: int, proxy: int) -> float:
    """Seconds from asking to the last of so many bytes; the connection stands already."""
    room = bytearray(ROOM)
    left = amount
    with _opened(host, port, proxy) as connection:
        began = time.perf_counter()
        connection.sendall(DOWNLOAD + amount.to_bytes(8, "big"))
        while count := connection.recv_into(room):
            left -= count
        took = time.perf_counter() - began
    if left:
        raise OSError(f"{left} bytes of {amount} are missing")
    return took


def request(host: str, port: int, amount: int, proxy: int) -> list[float]:
    """One after the other, each on a connection of its own: seconds for a small HTTP request and all of its answer."""
    text = f"GET /small HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode("ascii")
    took = []
    for _ in range(amount):
        began = time.perf_counter()
        answer = b""
        with _opened(host, port, proxy) as connection:
            connection.sendall(text)
            while data := connection.recv(65536):
                answer += data
        took.append(time.perf_counter() - began)
        if not answer.startswith(b"HTTP/1.1 200 ") or not answer.endswith(b"ok"):
            raise OSError(f"the server answered {answer[:200]!r}")
        time.sleep(REST)
    return took


def _ask(host: str, port: int) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode("ascii")


def _opened(host: str, port: int, proxy: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1" if proxy else host, proxy or port), timeout=PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy:
        connection.sendall(_ask(host, port))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = connection.recv(4096)
            if not data:
                raise OSError("the proxy hung up")
            head += data
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise OSError(head.split(b"\r\n")[0].decode("latin-1"))
    return connection


WHAT = {"connect": connect, "many": many, "download": download, "request": request}

if __name__ == "__main__":
    what, host, port, amount, proxy = sys.argv[1:]
    print(json.dumps(WHAT[what](host, int(port), int(amount), int(proxy))))
