"""What comes too slowly is given up, at whatever place of an answer it is slow."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kagura_kernel.kit.definitions.fetching import Fetcher, NotFetched
from kagura_kernel.kit.packages.lookup import Asker, NoAnswer


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


@pytest.mark.parametrize(
    ("name", "value"), [("SSL_CERT_FILE", "/no/such/file"), ("HTTPS_PROXY", "odd://user:hunter2@proxy.example")]
)
def test_certificates_and_proxies_that_cannot_be_used_are_told_without_a_value(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(NotFetched, match="SSL_CERT_FILE") as refused:
        Fetcher().get("https://127.0.0.1:1/agent.yaml")
    with pytest.raises(NoAnswer, match="SSL_CERT_FILE"):
        Asker("https://127.0.0.1:1/")
    assert "hunter2" not in str(refused.value)


@pytest.mark.timeout(20)
def test_documents_that_are_slow_together_are_given_up():
    fetcher = Fetcher(seconds=5, all_seconds=0.3)
    with dripping(b"HTTP/1.1 200 OK\r\n\r\n") as url, pytest.raises(NotFetched, match=r"takes longer than 0\.3 s"):
        fetcher.get(url)
    with pytest.raises(NotFetched, match="all that was fetched before it"):
        fetcher.get("http://127.0.0.1:1/agent.yaml")


def test_a_server_that_is_not_there_is_told_in_words():
    with pytest.raises(NotFetched, match=r"^Connection refused$"):
        Fetcher().get("http://127.0.0.1:1/agent.yaml")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\n\r\n", b""])
def test_a_server_that_brings_a_byte_now_and_then_is_given_up(beginning):
    with dripping(beginning) as url, pytest.raises(NotFetched, match="takes longer than"):
        Fetcher(seconds=0.3).get(url)
    with dripping(beginning) as url, Asker(url, seconds=0.3) as asker, pytest.raises(NoAnswer, match="takes longer"):
        asker.ask(url)
