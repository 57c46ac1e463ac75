"""What crosses the wall is cut exactly at its limit, looks cut, and is never held in memory.

Boxes with walls, and servers on the loopback of the host.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kagura_kernel.testing.patience import eventually

if TYPE_CHECKING:
    from conftest import Proxy

MIB = 2**20
PROCESS = Path("/proc/self")


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer without a length, and without an end."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    piece = bytes(256 * 1024)
    while True:
        writer.write(piece)
        await writer.drain()


PEAK_OF_THE_GUEST = r"""
with open("/proc/1/status") as file:
    print(json.dumps(file.read()))
"""


def peak(status: str) -> int:
    """Bytes of memory that a process had at most, by its status file."""
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def peaks(proxy: Proxy, *, anew: bool = False) -> tuple[int, int]:
    """Bytes of memory that this process and the guest had at most; `anew` lets this one's be counted from now on."""
    if anew:
        PROCESS.joinpath("clear_refs").write_text("5")
    return peak(PROCESS.joinpath("status").read_text()), peak(await proxy.python(PEAK_OF_THE_GUEST))


def is_flat(before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether neither grew by more than a few chunks and what every program takes."""
    return all(now - then < 24 * MIB for now, then in zip(after, before, strict=True))


CURL = "curl --silent --show-error --noproxy '' --output /dev/null --write-out '%{size_download} %{http_code}' "


@pytest.mark.parametrize(
    "way", ["", "--proxytunnel ", "--proxy socks5h://127.0.0.1:{port} "], ids=["plain", "tunnel", "socks"]
)
async def test_a_download_is_cut_exactly_at_the_limit_and_the_program_is_told(way, some_walls, proxying, serving):
    limit = 48 * MIB
    async with serving(endless) as port, proxying(f"127.0.0.1:{port}", backend=some_walls(), bytes_in=limit) as proxy:
        before = await peaks(proxy, anew=True)
        result = await proxy.sh(f"{CURL} {way.format(port=proxy.port)} http://127.0.0.1:{port}/")
        after = await peaks(proxy)
        await eventually(lambda: proxy.records[-1].kind == "egress.closed")
        # The next connection is a new one, and has a limit of its own.
        again = await proxy.sh(f"{CURL} --range 0-9 --max-filesize 1 http://127.0.0.1:{port}/")
    closed = next(fact for fact in proxy.records if fact.kind == "egress.closed")
    assert (closed.ended, closed.bytes_in) == ("limit", limit)
    # Not the end of a file: a part is never taken for the whole.
    assert result.exit_code == 56
    assert "reset" in result.stderr.text.lower()
    size, status = result.stdout.text.split()
    assert status == "200"
    assert int(size) <= limit
    assert is_flat(before, after), (before, after)
    assert again.stdout.text.endswith("200")


async def drops(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes whatever comes, and says nothing."""
    del writer
    while await reader.read(MIB):
        pass


async def test_an_upload_is_cut_exactly_at_the_limit_and_the_program_is_told(some_walls, proxying, serving):
    limit = 24 * MIB
    async with serving(drops) as port, proxying(f"127.0.0.1:{port}", backend=some_walls(), bytes_out=limit) as proxy:
        before = await peaks(proxy, anew=True)
        result = await proxy.sh(f"{CURL} --proxytunnel --upload-file /dev/zero http://127.0.0.1:{port}/")
        after = await peaks(proxy)
        await eventually(lambda: proxy.records[-1].kind == "egress.closed")
    assert (proxy.records[-1].ended, proxy.records[-1].bytes_out) == ("limit", limit)
    assert result.exit_code in {55, 56}  # it could not send, or heard the reset first
    assert is_flat(before, after), (before, after)


async def test_a_run_that_has_used_up_its_bytes_gets_no_further_connection(some_walls, proxying, serving):
    limit = 24 * MIB
    both_are_there = asyncio.Barrier(2)

    async def together(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await both_are_there.wait()
        await endless(reader, writer)

    async with (
        serving(together) as port,
        proxying(f"127.0.0.1:{port}", backend=some_walls(), run_bytes_in=limit) as proxy,
    ):
        line = f"{CURL} http://127.0.0.1:{port}/"
        both = await asyncio.gather(proxy.sh(line), proxy.sh(line))
        third = await proxy.sh(f"curl --silent --noproxy '' http://127.0.0.1:{port}/")
    # Two at once share what is left, to the byte.
    assert sum(fact.bytes_in for fact in proxy.records if fact.kind == "egress.closed") == limit
    assert not any(result.ok for result in both)
    assert "has used up its bytes" in third.stdout.text


async def test_a_server_that_drips_is_left_when_the_time_is_up(some_walls, proxying, serving):
    async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with (
        serving(drips) as port,
        proxying(f"127.0.0.1:{port}", backend=some_walls(), idle=30.0, total=2.0) as proxy,
    ):
        result = await proxy.sh(f"{CURL} http://127.0.0.1:{port}/")
        await eventually(lambda: proxy.records[-1].kind == "egress.closed")
    assert proxy.records[-1].ended == "time"
    assert result.exit_code == 56


async def test_a_server_that_says_nothing_is_left_when_it_has_been_silent_for_too_long(some_walls, proxying, serving):
    async with serving(drops) as port, proxying(f"127.0.0.1:{port}", backend=some_walls(), idle=1.0) as proxy:
        result = await proxy.sh(f"{CURL} http://127.0.0.1:{port}/")
        await eventually(lambda: proxy.records[-1].kind == "egress.closed")
    assert proxy.records[-1].ended == "idle"
    assert result.exit_code == 56


MANY = 10_000
PROCESSES = 10  # each may have 4,096 descriptors

# Every kind of connection that has not said where it wants to go, and holds on to what it has until it is told to stop.
FLOOD = r"""
import os, socket, time

PIECES = [b"", b"C", b"CONNECT 127.0.0.1", b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: ", b"\x05", b"\x05\x01\x00\x05"]
held = []
for number in range(ARGS[0]):
    client = socket.socket()
    client.settimeout(100)
    client.connect(("127.0.0.1", PORT))
    try:
        client.send(PIECES[number % len(PIECES)])
    except ConnectionError:
        pass  # it was let go again already
    held.append(client)
open("/tmp/held-%d" % ARGS[1], "w").close()
while not os.path.exists("/tmp/enough"):
    time.sleep(0.05)
print(len(held))
"""
GRANTED = "curl --silent --show-error --noproxy '' --max-time 100 http://127.0.0.1:{}/"

# Connections of the proxy's that are established, as the system of the box tells them.
ESTABLISHED = r"""
count = 0
for name in ("/proc/net/tcp", "/proc/net/tcp6"):
    try:
        with open(name) as file:
            for line in file.readlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                count += state == "01" and int(local.rpartition(":")[2], 16) == PORT
    except FileNotFoundError:
        pass
print(json.dumps(count))
"""


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A page."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    await writer.drain()


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count


@asynccontextmanager
async def held(proxy: Proxy, code: str, *arguments: object, processes: int = 1) -> AsyncIterator[None]:
    """Programs of the box that do this and hold it until the end of the block."""
    running = [asyncio.ensure_future(proxy.python(code, *arguments, number)) for number in range(processes)]
    try:
        there = " && ".join(f"test -e /tmp/held-{number}" for number in range(processes))

        async def ready() -> bool:
            for task in running:
                if task.done():
                    task.result()
            return (await proxy.sh(there)).ok

        await eventually(ready, 100)
        yield
    finally:
        await proxy.sh("touch /tmp/enough")
        await asyncio.gather(*running)


@pytest.mark.timeout(600)
async def test_ten_thousand_half_open_connections_keep_nobody_out_and_leave_nothing(some_walls, proxying, serving):
    async with serving(answers) as port:
        tasks, before = asyncio.all_tasks(), descriptors()
        async with proxying(f"127.0.0.1:{port}", backend=some_walls()) as proxy:
            async with held(proxy, FLOOD, MANY // PROCESSES, processes=PROCESSES):
                for _ in range(20):
                    page, other = await asyncio.gather(proxy.sh(GRANTED.format(port)), proxy.sh("echo here"))
                    assert (page.stdout.text, other.stdout.text) == ("hello", "here\n"), page.stderr.text
                # On the host there is nothing of those that have not said where they want to go.
                assert {fact.host for fact in proxy.records} == {"127.0.0.1"}
                assert await proxy.python(ESTABLISHED) <= 256
            await eventually(lambda: nobody(proxy))
            assert (await proxy.sh(GRANTED.format(port))).stdout.text == "hello"
        await eventually(lambda: asyncio.all_tasks() <= tasks and descriptors() <= before)


async def nobody(proxy: Proxy) -> bool:
    """Whether no program is connected to the proxy."""
    return await proxy.python(ESTABLISHED) == 0


# A head that never ends, on many connections, a byte now and then, until all of them have been ended.
DRIP = r"""
import select, socket, time

head = b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX: " + b"x" * 10000
dripping, sent = {}, 0
for number in range(ARGS[0]):
    client = socket.create_connection(("127.0.0.1", PORT), 100)
    client.setblocking(False)
    dripping[client.fileno()] = client
open("/tmp/held-%d" % ARGS[1], "w").close()
ended, until = 0, time.monotonic() + 90
while dripping and time.monotonic() < until:
    for fd, client in list(dripping.items()):
        try:
            if sent % 10 == 0:
                client.send(head[sent // 10 : sent // 10 + 1])
            if client.recv(1) == b"":
                raise ConnectionError
        except BlockingIOError:
            continue
        except ConnectionError:
            client.close()
            del dripping[fd]
            ended += 1
    sent += 1
    time.sleep(0.01)
print(ended)
"""


@pytest.mark.slow
async def test_programs_that_say_where_they_want_to_go_a_letter_at_a_time_are_left_and_keep_nobody_out(
    some_walls, proxying, serving
):
    async with serving(answers) as port, proxying(f"127.0.0.1:{port}", backend=some_walls()) as proxy:
        dripping = asyncio.ensure_future(proxy.python(DRIP, 500, 0))
        while not dripping.done():
            assert (await proxy.sh(GRANTED.format(port))).stdout.text == "hello"
        assert dripping.result() == 500
        assert {fact.port for fact in proxy.records} == {port}


# Tunnels that are asked for and kept, whatever the answer is; that many of the answers are waited for.
TUNNELS = r"""
import os, socket, time

held, answers = [], {}
for number in range(ARGS[0]):
    client = socket.create_connection(("127.0.0.1", PORT), 100)
    client.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % ARGS[1])
    held.append(client)
for client in held[: ARGS[2]]:
    status = client.recv(12).decode()
    answers[status] = answers.get(status, 0) + 1
open("/tmp/held-%d" % ARGS[3], "w").close()
while not os.path.exists("/tmp/enough"):
    time.sleep(0.05)
print(json.dumps(answers))
"""


async def test_tunnels_beyond_the_limit_are_refused_until_others_are_closed(some_walls, proxying, serving):
    async with serving(answers) as port, proxying(f"127.0.0.1:{port}", backend=some_walls(), connections=64) as proxy:
        one_more = f"curl --silent --show-error --noproxy '' --proxytunnel http://127.0.0.1:{port}/"
        running = asyncio.ensure_future(proxy.python(TUNNELS, 200, port, 200, 0))

        async def there() -> bool:
            return running.done() or (await proxy.sh("test -e /tmp/held-0")).ok

        await eventually(there)
        assert "503" in (await proxy.sh(one_more)).stderr.text
        assert (await proxy.sh("echo here")).stdout.text == "here\n"
        await proxy.sh("touch /tmp/enough")
        assert await running == {"HTTP/1.1 200": 64, "HTTP/1.1 503": 136}

        async def free() -> bool:
            return (await proxy.sh(one_more)).stdout.text == "hello"

        await eventually(free)


async def test_a_granted_host_that_never_answers_keeps_others_out_no_longer_than_it_takes_to_give_it_up(
    some_walls, proxying, serving
):
    with socket.socket() as silent, socket.socket() as waiting:
        # Nobody accepts here and the queue is full: what comes now is not answered, as by a host that is not there.
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        waiting.connect(silent.getsockname())
        stuck = silent.getsockname()[1]
        async with serving(answers) as port:
            words = (f"127.0.0.1:{port}", f"127.0.0.1:{stuck}")
            async with proxying(*words, backend=some_walls(), connections=64, connect=1.0) as proxy:
                async with held(proxy, TUNNELS, 1000, stuck, 0):

                    async def served() -> bool:
                        return (await proxy.sh(GRANTED.format(port))).stdout.text == "hello"

                    await eventually(served)
                ends = {fact.ended for fact in proxy.records if fact.kind == "egress.closed" and fact.port == stuck}
                assert ends <= {"unreachable", "reset"}
                assert "unreachable" in ends
