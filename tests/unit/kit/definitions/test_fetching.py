"""What comes too slowly is given up, at whatever place of an answer it is slow."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kagura_kernel.kit.definitions.fetching import Fetcher, NotFetched
from kagura_kernel.kit.packages.asking import Asker, NoAnswer


@contextmanager
def dripping(beginning: bytes) -> Iterator[str]:
    """A server that goes on from a beginning with a byte now and then, as long as anybody listens; its address."""
    over = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(beginning)
                while not over.wait(0.02):
                    connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/agent.yaml"
        finally:
            over.set()
            thread.join()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\n\r\n", b""])
def test_a_server_that_brings_a_byte_now_and_then_is_given_up(beginning: bytes) -> None:
    with dripping(beginning) as url, pytest.raises(NotFetched, match="takes longer than"):
        Fetcher(seconds=0.3).get(url)
    with dripping(beginning) as url, Asker(seconds=0.3) as asker, pytest.raises(NoAnswer, match="takes longer than"):
        asker.ask(url)
