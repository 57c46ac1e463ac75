"""Connections that programs in a box make to its listeners: bytes, fronts, refusals and ends."""

# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kagura_kernel.domain.commands import Command, CommandResult
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box, GuestStream, Listener
from kagura_kernel.testing.conformance.box_fixtures import BoxFixtures, sh

PATIENCE = 60.0
PIECE = 256 * 1024

PROGRAM = r"""
import socket, sys, threading, time
port = int(sys.argv[1])
def connected(host="127.0.0.1"):
    return socket.create_connection((host, port), 60)
def said(client):
    data = b""
    while True:
        part = client.recv(65536)
        if not part:
            return data
        data += part
def head(client):
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += client.recv(1)
    return data.decode()
"""


async def program(box: Box, port: int, code: str, *, limits: CommandLimits | None = None) -> CommandResult:
    """What a program in the box gives; `connected`, `said` and `head` are there for it."""
    limits = limits or CommandLimits(PATIENCE, None)
    return await box.run(Command(("python3", "-c", PROGRAM + code, str(port)), limits=limits))


async def told(box: Box, port: int, code: str) -> str:
    """What it prints; it must end well."""
    result = await program(box, port, code)
    assert result.ok, result.stderr.text
    return result.stdout.text.strip()


async def echo(stream: GuestStream) -> None:
    """Everything back, to the end."""
    await stream.accept()
    while data := await stream.read(PIECE):
        await stream.write(data)
    await stream.write_eof()


def says(words: bytes) -> Callable[[GuestStream], Awaitable[None]]:
    """Serves by saying this, once."""

    async def serve(stream: GuestStream) -> None:
        await stream.accept()
        await stream.write(words)
        await stream.write_eof()
        while await stream.read(PIECE):
            pass

    return serve


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - a condition of any kind
            await asyncio.sleep(0.01)


class RawStreamsConformance(BoxFixtures):
    """Raw listeners: what holds of every `GuestStream`, whatever it is made of."""

    async def test_bytes_come_back_unchanged_through_a_raw_listener(self, box: Box) -> None:
        """Megabytes, both ways at once, and the end of each."""
        port = await box.listen(Listener(0, "raw"), echo)
        code = """
client, sent = connected(), bytes(range(256)) * 20000
threading.Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR))).start()
print(said(client) == sent)
"""
        assert await told(box, port, code) == "True"

    async def test_each_side_may_stop_sending_and_still_hear_the_other(self, box: Box) -> None:
        """A half-close is passed on, in both directions."""
        heard = bytearray()

        async def serve(stream: GuestStream) -> None:
            await stream.accept()
            await stream.write(b"first")
            await stream.write_eof()
            while data := await stream.read(PIECE):
                heard.extend(data)

        port = await box.listen(Listener(0, "raw"), serve)
        code = """
client = connected()
assert said(client) == b"first"
client.sendall(b"afterwards")
client.close()
"""
        await told(box, port, code)
        await until(lambda: bytes(heard) == b"afterwards")
        port = await box.listen(Listener(0, "raw"), says(b"answer"))
        assert await told(box, port, "c = connected(); c.shutdown(1); print(said(c).decode())") == "answer"

    @pytest.mark.parametrize("way", ["abort", "close", "raise"])
    async def test_what_was_cut_off_is_never_taken_for_the_whole(self, box: Box, way: str) -> None:
        """The program hears a reset, whichever way the host left without having ended the stream."""
        failures: list[BaseException] = []

        async def serve(stream: GuestStream) -> None:
            await stream.accept()
            await stream.write(b"a part")
            await stream.read(1)
            if way == "raise":
                raise ZeroDivisionError
            (stream.abort if way == "abort" else stream.close)()

        port = await box.listen(Listener(0, "raw"), serve, failures.append)
        code = """
client = connected()
assert client.recv(6, socket.MSG_WAITALL) == b"a part"
client.sendall(b"x")
try:
    print("ended", said(client))
except ConnectionResetError:
    print("reset")
"""
        assert await told(box, port, code) == "reset"
        await until(lambda: len(failures) == (way == "raise"))
        assert (await sh(box, "true")).ok

    async def test_a_program_that_resets_its_connection_is_not_one_that_has_ended_it(self, box: Box) -> None:
        """The host's next read fails."""
        outcome: list[object] = []

        async def serve(stream: GuestStream) -> None:
            await stream.accept()
            try:
                while data := await stream.read(PIECE):
                    await stream.write(data)
                outcome.append("ended")
            except OSError:
                outcome.append("reset")

        port = await box.listen(Listener(0, "raw"), serve)
        code = r"""
client = connected()
client.sendall(b"x")
assert client.recv(1) == b"x"
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
client.close()
"""
        await told(box, port, code)
        await until(lambda: outcome == ["reset"])

    async def test_a_stream_that_has_ended_may_be_ended_again(self, box: Box) -> None:
        """In either way, after either; and it gives nothing any more."""
        outcome: list[str] = []

        async def serve(stream: GuestStream) -> None:
            await stream.accept()
            await stream.write(b"all")
            await stream.write_eof()
            assert await stream.read(PIECE) == b"x"
            stream.close()
            stream.close()
            stream.abort()
            try:
                await stream.read(1)
            except OSError:
                outcome.append("refused")

        port = await box.listen(Listener(0, "raw"), serve)
        code = """
client = connected()
assert said(client) == b"all"
client.sendall(b"x")
"""
        await told(box, port, code)
        await until(lambda: outcome == ["refused"])

    async def test_a_read_that_was_called_off_takes_nothing_away(self, box: Box) -> None:
        """The next one gets it all."""
        heard = bytearray()

        async def serve(stream: GuestStream) -> None:
            await stream.accept()
            waiting = asyncio.ensure_future(stream.read(PIECE))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            await stream.write(b"now")
            while data := await stream.read(PIECE):
                heard.extend(data)

        port = await box.listen(Listener(0, "raw"), serve)
        code = """
client = connected()
assert client.recv(3, socket.MSG_WAITALL) == b"now"
client.sendall(b"everything")
client.close()
"""
        await told(box, port, code)
        await until(lambda: bytes(heard) == b"everything")

    async def test_a_program_that_breaks_off_before_it_was_answered_is_gone(self, box: Box) -> None:
        """Whoever serves it hears so, and may stop what nobody waits for."""
        there, gone = asyncio.Event(), asyncio.Event()

        async def serve(stream: GuestStream) -> None:
            there.set()
            await stream.gone()
            gone.set()

        port = await box.listen(Listener(0, "raw"), serve)
        code = r"""
client = connected()
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
client.close()
"""
        await told(box, port, code)
        await until(lambda: there.is_set() and gone.is_set())


class BoxStreamsConformance(RawStreamsConformance):
    """Listeners in boxes, with the fronts that they have beside."""

    async def test_a_listener_is_there_on_both_loopback_addresses(self, box: Box) -> None:
        """Where the box has IPv6; and each stream says which listener it came through."""
        names: list[object] = []

        async def serve(stream: GuestStream) -> None:
            names.append(stream.request["name"])
            await echo(stream)

        port = await box.listen(Listener(0, "raw", "here"), serve)
        code = """
hosts = ["127.0.0.1"]
try:
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
    hosts.append("::1")
except OSError:
    pass
for host in hosts:
    client = connected(host)
    client.sendall(b"x")
    assert client.recv(1) == b"x"
print(len(hosts))
"""
        assert len(names) == 0
        count = int(await told(box, port, code))
        assert names == ["here"] * count

    async def test_a_connect_names_where_it_goes_and_is_a_tunnel(self, box: Box) -> None:
        """Host and port as the program wrote them; bytes sent along with the head are not lost."""
        asked: list[object] = []

        async def serve(stream: GuestStream) -> None:
            asked.append((stream.request["host"], stream.request["port"]))
            await echo(stream)

        port = await box.listen(Listener(0, "proxy"), serve)
        code = r"""
client = connected()
client.sendall(b"CONNECT Some.Example:443 HTTP/1.1\r\nHost: Some.Example:443\r\n\r\nearly")
print(head(client).split()[1])
client.sendall(b" and late")
client.shutdown(socket.SHUT_WR)
print(said(client).decode())
"""
        assert await told(box, port, code) == "200\nearly and late"
        assert asked == [("Some.Example", 443)]

    @pytest.mark.parametrize("front", ["proxy", "raw"])
    async def test_a_program_that_hangs_up_before_it_was_answered_is_gone(self, box: Box, front: str) -> None:
        """In order, which looks to the other side as if it had only stopped sending."""
        gone = asyncio.Event()

        async def serve(stream: GuestStream) -> None:
            await stream.gone()
            gone.set()

        port = await box.listen(Listener(0, "raw" if front == "raw" else "proxy"), serve)
        code = r"""
client = connected()
client.sendall(b"GET http://some.example/ HTTP/1.1\r\nHost: some.example\r\n\r\n")
client.close()
"""
        await told(box, port, code)
        await until(gone.is_set)

    @pytest.mark.parametrize("front", ["proxy", "raw"])
    async def test_a_program_that_has_only_stopped_sending_is_still_answered(self, box: Box, front: str) -> None:
        """However long the answer takes, and though another one that hung up is noticed meanwhile."""
        left: list[str] = []

        async def serve(stream: GuestStream) -> None:
            gone = asyncio.ensure_future(stream.gone())
            if not left:
                left.append("first")
                await gone
                left.append("gone")
                return
            await until(lambda: "gone" in left)
            assert not gone.done()
            gone.cancel()
            await stream.accept()
            while (data := await stream.read(PIECE)) and not bytes(data).endswith(b"\r\n\r\n"):
                pass
            await stream.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
            await stream.write_eof()

        port = await box.listen(Listener(0, "raw" if front == "raw" else "proxy"), serve)
        code = r"""
request = b"GET http://some.example/ HTTP/1.1\r\nHost: some.example\r\n\r\n"
other, client = connected(), connected()
for one in (other, client):
    one.sendall(request)
    one.shutdown(socket.SHUT_WR)
other.close()
print(said(client).decode().rpartition("\n")[2])
"""
        assert await told(box, port, code) == "hello"

    async def test_plain_http_arrives_as_one_request(self, box: Box) -> None:
        """Rewritten, and its answer ends with the connection."""
        heard = bytearray()

        async def serve(stream: GuestStream) -> None:
            heard.extend(f"{stream.request['host']} {stream.request['port']}|".encode())
            await stream.accept()
            while b"\r\n\r\n" not in heard:
                heard.extend(await stream.read(PIECE))
            await stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            await stream.write_eof()
            assert not await stream.read(PIECE)

        port = await box.listen(Listener(0, "proxy"), serve)
        code = """
import urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:%d" % port}))
print(opener.open("http://some.example/page?x", timeout=60).read().decode())
"""
        assert await told(box, port, code) == "hello"
        assert heard.startswith(b"some.example 80|GET /page?x HTTP/1.1\r\nHost: some.example\r\n")

    async def test_socks_clients_are_served(self, box: Box) -> None:
        """Names as names, and a refusal as its number."""

        async def serve(stream: GuestStream) -> None:
            if stream.request["host"] != "some.example":
                await stream.refuse(403, "not this one")
            else:
                await echo(stream)

        port = await box.listen(Listener(0, "proxy"), serve)
        code = r"""
for name in (b"some.example", b"other.example"):
    client = connected()
    client.sendall(b"\5\1\0")
    assert client.recv(2) == b"\5\0"
    client.sendall(b"\5\1\0\3" + bytes([len(name)]) + name + (443).to_bytes(2, "big"))
    answer = client.recv(10)
    print(answer[1])
    if not answer[1]:
        client.sendall(b"through")
        client.shutdown(socket.SHUT_WR)
        print(said(client).decode())
"""
        assert await told(box, port, code) == "0\nthrough\n2"

    async def test_a_refusal_is_told_in_words_that_the_program_shows(self, box: Box) -> None:
        """Through CONNECT and through plain HTTP."""

        async def serve(stream: GuestStream) -> None:
            await stream.refuse(403, "this is not granted")

        port = await box.listen(Listener(0, "proxy"), serve)
        code = """
import urllib.error, urllib.request
proxy = "http://127.0.0.1:%d" % port
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
for url in ("https://some.example/", "http://some.example/"):
    try:
        opener.open(url, timeout=60)
    except urllib.error.URLError as problem:
        print(problem)
"""
        lines = (await told(box, port, code)).splitlines()
        assert len(lines) == 2
        assert all("403" in line and "this is not granted" in line for line in lines)
