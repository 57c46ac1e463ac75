from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import pytest

from kagura_kernel.testing.loopback_listener import LoopbackServer, OwnedListener


class Waiting(LoopbackServer):
    """Says nothing until it ends, and notes that it was told so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.told: list[bool] = []

    def listen(self) -> OwnedListener[Waiting]:
        """Its listener."""
        return OwnedListener(self, Handler)


class Handler(BaseHTTPRequestHandler):
    server: OwnedListener[Waiting]

    def do_GET(self) -> None:
        self.server.owner.asked.set()
        self.server.owner.told.append(self.server.owner.wait_closing(None))


def test_a_server_that_was_not_entered_has_no_address_and_says_what_to_do():
    with pytest.raises(RuntimeError, match="Waiting is not running; use it in a `with` statement"):
        _ = Waiting().url


def test_the_end_lets_go_of_who_waits_and_leaves_neither_thread_nor_port():
    before = set(threading.enumerate())
    with Waiting() as server:
        place = urlsplit(server.url)
        client = socket.create_connection((place.hostname, place.port))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert server.asked.wait(60)
    with client:
        assert client.recv(1) == b""
    assert server.told == [True]
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((place.hostname, place.port))
