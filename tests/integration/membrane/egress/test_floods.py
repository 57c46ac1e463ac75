"""A program that holds thousands of connections keeps neither the box's other commands nor granted hosts from working.

Boxes with walls, and servers on the loopback of the host.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kagura_kernel.testing.patience import eventually

if TYPE_CHECKING:
    from conftest import Proxy

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
