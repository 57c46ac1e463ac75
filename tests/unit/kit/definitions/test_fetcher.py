"""What comes too slowly is given up, at whatever place of an answer it is slow."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from kagura_kernel.kit.definitions.fetcher import Fetcher, LeadsInside, NotFetched, Redirects
from kagura_kernel.kit.packages.lookup import Asker, NoAnswer
from kagura_kernel.plugins.installation import NotUnpacked, fetch_archive
from tests.support.registry_server import Page, RegistryServer


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


@pytest.mark.parametrize("leads_to", ["https://xn--a/", "https://[::1/", "https://a:99999/"])
def test_a_redirect_to_what_is_no_host_is_told(leads_to):
    transport = httpx.MockTransport(lambda _: httpx.Response(302, headers={"location": leads_to}))
    with pytest.raises(NotFetched):
        Fetcher(transport).get("https://a.example/agent.yaml")
    with Asker("https://a.example/", transport) as asker, pytest.raises(NoAnswer):
        asker.ask("https://a.example/")
    with pytest.raises(NotUnpacked):
        fetch_archive("https://a.example/x.zip", transport)


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


INSIDE = "registry.inside.example"


class Hearing:
    """What comes in at a port of the loopback, which never answers."""

    def __init__(self, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]  # Where it listens
        self.heard: list[bytes] = []  # What each connection said, when it is over
        self._listener = listener

    def serve(self) -> None:
        """Listen until the listener is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.heard.append(connection.recv(65536))


@contextmanager
def hearing() -> Iterator[Hearing]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Hearing(listener)
        thread = threading.Thread(target=found.serve, daemon=True)
        thread.start()
        yield found
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def named_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads to this machine, as one of a company's own network would."""
    real = socket.getaddrinfo

    def look_up(host, *rest, **more):
        return real("127.0.0.1" if host == INSIDE else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("10.1.2.3", "a private network"),
        ("169.254.169.254", "metadata service"),
        ("[fd00::1]", "a private network"),
        ("[::ffff:10.0.0.1]", "IPv4-mapped"),
        ("127.0.0.1", "this machine itself"),
        ("LOCALHOST.", "this machine itself"),
        ("db.localhost", "this machine itself"),
    ],
)
def test_a_name_that_is_no_public_one_is_not_followed(host, why):
    with pytest.raises(LeadsInside, match=why):
        Redirects("index.example.org").check(host)


@pytest.mark.parametrize(
    ("asked", "host"),
    [
        ("index.example.org", "files.example.org"),
        ("index.example.org", "1.1.1.1"),
        ("10.0.0.5", "10.0.0.5"),
        ("localhost", "127.0.0.1"),
        ("[::1]", "localhost"),
    ],
)
def test_public_names_and_the_host_that_was_asked_are_followed(asked, host):
    Redirects(asked).check(host)


@pytest.mark.usefixtures("named_inside")
def test_a_name_of_the_persons_own_network_is_told_by_its_address_before_anything_is_said_there():
    with hearing() as inside, RegistryServer() as outside:
        outside.pages["/agent.yaml"] = Page(status=302, headers={"Location": f"https://{INSIDE}:{inside.port}/x"})
        with pytest.raises(NotFetched, match=r"not public \(loopback\)"):
            Fetcher(httpx.HTTPTransport(trust_env=False)).get(f"{outside.url}/agent.yaml")
        url = f"{outside.url}/agent.yaml"
        with Asker(url, httpx.HTTPTransport(trust_env=False)) as asker, pytest.raises(NoAnswer, match="not public"):
            asker.ask(url)
        # What is asked because of an answer, and not by a redirect, is looked at as well.
        with Asker(url, httpx.HTTPTransport(trust_env=False)) as asker, pytest.raises(NoAnswer, match="not public"):
            asker.ask(f"https://{INSIDE}:{inside.port}/sums")
        with pytest.raises(NotFetched, match="not public"):
            Fetcher(httpx.HTTPTransport(trust_env=False)).get(
                f"https://{INSIDE}:{inside.port}/token", named_by="registry.example.org"
            )
    assert inside.heard == [b""] * 4


@pytest.mark.usefixtures("named_inside")
def test_a_host_that_the_person_named_is_asked_wherever_it_is():
    with hearing() as inside, pytest.raises(NotFetched):
        Fetcher(httpx.HTTPTransport(trust_env=False)).get(f"https://{INSIDE}:{inside.port}/agent.yaml")
    assert inside.heard[0][:1] == b"\x16", "it begins with TLS"
