"""Services on the loopback, found by asking them: real servers, and programs that answer something else."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kagura_kernel.assembly.local_services import LARGEST, LocalService, local_services, local_urls
from kagura_kernel.domain.settings import EndpointSettings, Settings
from tests.support.openai_server import OpenAIServer


@contextmanager
def answering(data: bytes, *, closes: bool = True) -> Iterator[str]:
    """A program that says this to whoever comes, and the base URL that it is taken for."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                client.recv(65536)
                client.sendall(data)
                if closes:
                    client.close()
                else:
                    held.append(client)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        server.shutdown(socket.SHUT_RDWR)
    for client in held:
        client.close()


def told(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def test_whoever_answers_is_found_with_its_models_and_others_are_left_out():
    with (
        OpenAIServer(models=("small", "qwen3:32b")) as good,
        OpenAIServer(key="sk-1234567890") as locked,
        answering(b"HTTP/1.1 302 Found\r\nlocation: https://example.org/\r\n\r\n") as moved,
        answering(told(b"<html>")) as page,
        answering(told(b'{"data": [{"id": 7}, {"id": "two\\nlines"}, {"id": "' + b"x" * 300 + b'"}, 1]}')) as odd,
        answering(told(b'{"data": "' + b"x" * LARGEST + b'"}')) as endless,
        answering(b"", closes=False) as silent,
    ):
        urls = {"good": good.url, "locked": locked.url, "moved": moved, "page": page, "odd": odd, "endless": endless}
        assert local_services({"silent": silent, **urls}) == [LocalService("good", ("small", "qwen3:32b"))]
        assert all("authorization" not in request.headers for request in good.requests)


def test_only_loopback_addresses_are_asked():
    endpoints = {
        "mine": EndpointSettings(url="http://localhost:9/v1"),
        "work": EndpointSettings(url="https://llm.example.com/v1"),
        "ollama": EndpointSettings(url="https://ollama.example.com/v1"),
    }
    assert list(local_urls(Settings(endpoints=endpoints))) == ["lmstudio", "vllm", "llamacpp", "mine"]
