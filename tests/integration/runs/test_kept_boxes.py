"""A box that stays for the next cell, in real boxes: what of one run never reaches the next one."""

import socket
import threading
from collections.abc import Iterator

import pytest

from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.docker_images import BASE
from tests.support.plugins import FakePlugin, FakePlugins

GOES_ON = """
import os, socket, threading, time
proxy = int(os.environ["HTTP_PROXY"].rpartition(":")[2])

def direct():
    return socket.create_connection(("127.0.0.1", {port}), 5).recv(4)

def proxied():
    one = socket.create_connection(("127.0.0.1", proxy), 5)
    one.sendall(b"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n")
    return one.recv(4096).partition(b"\\r\\n\\r\\n")[2] or one.recv(4)

def tried(way):
    try:
        return way().decode()
    except OSError as error:
        return type(error).__name__

def go_on():
    while True:
        tried(direct), tried(proxied)
        time.sleep(0.01)

open_one = socket.create_connection(("127.0.0.1", {port}), 5)
open_one.recv(4)
threading.Thread(target=go_on, daemon=True).start()
print(tried(direct), tried(proxied))
"""
"""Reaches what was granted, by a thread that never stops, and keeps a connection open."""

LATER = """
try:
    open_one.settimeout(5)
    print(open_one.recv(1) or "ended")
except OSError as error:
    print("ended")
print(tried(direct), "word" in tried(proxied))
"""


@pytest.fixture
def service() -> Iterator[tuple[int, list[int]]]:
    """The port of something on this machine that says `word`, and a mark for each that came."""
    came: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve() -> None:
            while True:
                try:
                    one, _ = server.accept()
                except OSError:
                    return
                came.append(1)
                held.append(one)
                one.sendall(b"word")

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for one in held:
        one.close()


def run_twice(backend, home, project, service) -> None:
    port, came = service
    cockpit = fake_cockpit(home, backend=backend, settings=Settings(keep=True))

    def run(code: str, *net: str) -> str:
        request = RunRequest(code, "python", project=project, net=net, headless=True)
        outcome = cockpit.launch(request).result(60)
        assert outcome.status == "done", outcome
        return outcome.text

    try:
        assert run(GOES_ON.format(port=port), f"127.0.0.1:{port}") == "word word\n"
        # Whoever connected before is counted once this one is served.
        with socket.create_connection(("127.0.0.1", port), 5) as last:
            last.recv(4)
        before = len(came)
        assert before >= 3
        assert run(LATER) == "ended\nConnectionRefusedError False\n"
        assert len(came) == before
        assert run("print(tried(direct), tried(proxied))", f"127.0.0.1:{port}") == "word word\n"
    finally:
        cockpit.close()


def test_what_a_run_could_reach_is_gone_for_all_that_goes_on_in_its_box(tmp_path, project, service):
    run_twice(BubblewrapBackend(), tmp_path / "home", project, service)


@pytest.mark.docker
@pytest.mark.timeout(600)  # whoever comes first builds the images
def test_likewise_in_a_container(tmp_path, project, service, docker_endpoint):
    run_twice(DockerBackend(docker_endpoint, default_image=BASE), tmp_path / "home", project, service)


async def test_a_session_calls_plugins_of_the_cell_that_goes_on(runs):
    """Also by what it imported in the cell before, and where none was enabled when its Python began."""
    plugins = FakePlugins(FakePlugin("words", {"words": {"upper": lambda text: text.upper()}}))
    first = await runs.cell(FakePlugins(), "x = 1", keep_seconds=900.0)
    second = await runs.cell(plugins, "from kagura_host import words; print(words.upper('abc'))", keep_seconds=900.0)
    third = await runs.cell(plugins, "print(words.upper('abc'), x)", keep_seconds=900.0)
    assert (first.outcome.status, second.text, third.text) == ("done", "ABC\n", "ABC 1\n")
    assert [len(one.calls) for one in (second, third)] == [1, 1]
    await runs.kept.close()
