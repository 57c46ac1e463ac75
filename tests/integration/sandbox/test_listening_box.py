"""Listeners of real guests where something about the box is not as usual."""

import asyncio
import os
import socket
import sys

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.backend import BoxSpec, GuestStream, Listener
from kagura_kernel.testing.box import FakeBackend


async def echo(stream: GuestStream) -> None:
    await stream.accept()
    while data := await stream.read(65536):
        await stream.write(data)
    await stream.write_eof()


async def round_trip(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"there and back")
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.fixture
async def backend():
    backend = FakeBackend()
    yield backend
    await backend.close()


async def test_fake_boxes_that_ask_for_the_same_port_each_get_one(backend):
    ports = [await (await backend.start(BoxSpec())).listen(Listener(3179), echo) for _ in range(2)]
    assert len(set(ports)) == 2
    for port in ports:
        assert await round_trip(port) == b"there and back"


async def test_the_listeners_travel_as_source_where_another_python_runs(monkeypatch):
    this = sys.executable
    monkeypatch.setattr("sys.executable", "/another/python")
    backend = FakeBackend(this)
    box = await backend.start(BoxSpec())
    assert await round_trip(await box.listen(Listener(0), echo)) == b"there and back"
    assert await round_trip(await box.listen(Listener(0), echo)) == b"there and back"
    await backend.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace takes root")
async def test_a_box_whose_loopback_is_down_says_so(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec unshare -n {sys.executable} "$@"\n')
    python.chmod(0o755)
    backend = FakeBackend(str(python))
    box = await backend.start(BoxSpec())
    with pytest.raises(SandboxUnavailable, match="loopback interface of the box is down"):
        await box.listen(Listener(3179), echo)
    assert (await box.run(shell_command("true"))).ok
    await backend.close()


async def test_a_box_with_few_descriptors_keeps_some_for_commands(tmp_path):
    # The guest's own lie above 100; of what is left below the limit, connections leave enough to start a command.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -n 160\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    backend = FakeBackend(str(python))
    box = await backend.start(BoxSpec())
    port = await box.listen(Listener(0, "proxy"), echo)
    clients = []
    for _ in range(500):
        client = socket.create_connection(("127.0.0.1", port), 20)
        client.sendall(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
        clients.append(client)
    results = await asyncio.gather(*(box.run(Command(("echo", "here"))) for _ in range(10)))
    assert [result.stdout.text for result in results] == ["here\n"] * 10
    for client in clients:
        client.close()
    await backend.close()
