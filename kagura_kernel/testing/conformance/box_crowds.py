"""Many connections out of a box, slow ones, and the life of its listeners."""

# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.policy import CommandLimits, IsolationClass
from kagura_kernel.sandbox.backend import Box, GuestStream, Listener, SandboxBackend
from kagura_kernel.testing.conformance.box_fixtures import DESCRIPTORS, BoxFixtures, sh
from kagura_kernel.testing.conformance.box_streams import PATIENCE, PIECE, echo, program, says, told, until

PORT = 3179


class BoxCrowdsConformance(BoxFixtures):
    """Flow control, crowds, walls and ends of listeners."""

    async def test_who_does_not_read_stalls_only_itself(self, box: Box) -> None:
        """A program, and the host: each stops the other after a bounded amount, and all others go on."""
        pushed, stalled = 0, asyncio.Event()

        async def push(stream: GuestStream) -> None:
            nonlocal pushed
            await stream.accept()
            with suppress(OSError):
                while True:
                    await stream.write(bytes(PIECE))
                    pushed += PIECE

        async def ignore(stream: GuestStream) -> None:
            await stream.accept()
            await stalled.wait()

        deaf = asyncio.create_task(
            program(box, await box.listen(Listener(0), push), "c = connected(); time.sleep(600)")
        )
        ignored = asyncio.create_task(
            program(box, await box.listen(Listener(0), ignore), "connected().sendall(bytes(100_000_000))")
        )
        port = await box.listen(Listener(0), echo)
        seen = -1
        while seen != pushed or not pushed:
            # The push has come to a stand when nothing was taken during two round trips of another connection.
            seen = pushed
            for _ in range(2):
                assert await told(box, port, "c = connected(); c.sendall(b'x'); print(c.recv(1).decode())") == "x"
        assert pushed < 32 * 2**20
        assert not deaf.done()
        assert not ignored.done()
        for task in (deaf, ignored):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        stalled.set()

    async def test_two_hundred_connections_at_once_all_succeed_and_commands_go_on(self, box: Box) -> None:
        """The connections pull without end until the commands are through."""
        done = asyncio.Event()
        open_now = 0

        async def pour(stream: GuestStream) -> None:
            nonlocal open_now
            await stream.accept()
            open_now += 1
            piece = bytes(64 * 1024)
            while not done.is_set():
                await stream.write(piece)
            await stream.write(b"the end")
            await stream.write_eof()

        port = await box.listen(Listener(0), pour)
        code = """
ends = []
def pull():
    client, last = connected(), b""
    while True:
        part = client.recv(262144)
        if not part:
            break
        last = (last + part)[-7:]
    ends.append(last)
pulls = [threading.Thread(target=pull) for _ in range(200)]
[one.start() for one in pulls]
[one.join() for one in pulls]
print(ends.count(b"the end"))
"""
        pulling = asyncio.create_task(program(box, port, code, limits=CommandLimits(300.0, None)))
        await until(lambda: open_now == 200 or pulling.done())
        for number in range(5):
            assert (await sh(box, f"echo {number}")).stdout.text == f"{number}\n"
        assert not pulling.done()
        done.set()
        result = await pulling
        assert result.stdout.text.strip() == "200", result.stderr.text

    async def test_commands_inherit_nothing_of_listeners_and_connections(self, box: Box) -> None:
        """Only their own three descriptors, and the one that lists them."""
        served: list[GuestStream] = []

        async def keep(stream: GuestStream) -> None:
            served.append(stream)
            await echo(stream)

        port = await box.listen(Listener(0), keep)
        held = asyncio.create_task(program(box, port, "print(said(connected()))"))
        await until(lambda: bool(served) or held.done())
        assert (await sh(box, DESCRIPTORS)).stdout.text.strip() == "4"
        held.cancel()
        with pytest.raises(asyncio.CancelledError):
            await held

    async def test_a_listener_is_in_the_box_and_nowhere_else(self, backend: SandboxBackend, fresh_box: Box) -> None:
        """The same port in two boxes, neither of them to be reached from the host, each once."""
        if backend.isolation is IsolationClass.NONE:
            pytest.skip("a back-end without walls has the machine's own loopback")
        other = await backend.start(self.spec(None))
        try:
            assert await fresh_box.listen(Listener(PORT), says(b"one")) == PORT
            assert await other.listen(Listener(PORT), says(b"two")) == PORT
            code = "c = connected(); c.shutdown(1); print(said(c).decode())"
            assert await told(fresh_box, PORT, code) == "one"
            assert await told(other, PORT, code) == "two"
            with socket.socket() as client:
                assert client.connect_ex(("127.0.0.1", PORT)) != 0
            with pytest.raises(SandboxUnavailable, match=f"port {PORT}.*in use"):
                await fresh_box.listen(Listener(PORT), echo)
            assert (await sh(fresh_box, "true")).ok
        finally:
            await other.close()

    async def test_closing_the_box_ends_whoever_serves_and_leaves_no_task(
        self, backend: SandboxBackend, fresh_box: Box
    ) -> None:
        """And a box that is started afterwards listens again."""
        before = asyncio.all_tasks()
        began, ended = 0, 0

        async def wait(stream: GuestStream) -> None:
            nonlocal began, ended
            await stream.accept()
            began += 1
            try:
                await asyncio.Event().wait()
            finally:
                ended += 1

        port = await fresh_box.listen(Listener(0), wait)
        code = "cs = [connected() for _ in range(20)]; time.sleep(600)"
        held = asyncio.create_task(program(fresh_box, port, code, limits=CommandLimits(None, None)))
        await until(lambda: began == 20 or held.done())
        await fresh_box.close()
        assert ended == 20
        with pytest.raises(SandboxUnavailable):
            await held
        with pytest.raises(SandboxUnavailable):
            await fresh_box.listen(Listener(0), echo)
        assert {task for task in asyncio.all_tasks() - before if "wait" in repr(task.get_coro())} == set()
        again = await backend.start(self.spec(None))
        port = await again.listen(Listener(0), says(b"again"))
        assert await told(again, port, "c = connected(); c.shutdown(1); print(said(c).decode())") == "again"
        await again.close()

    async def test_a_failure_that_nobody_takes_ends_the_box(self, fresh_box: Box) -> None:
        """So that it cannot be lost."""
        loop = asyncio.get_running_loop()
        reported: list[object] = []
        loop.set_exception_handler(lambda _loop, context: reported.append(context["exception"]))

        async def fail(stream: GuestStream) -> None:
            raise ZeroDivisionError(stream.request["name"])

        try:
            port = await fresh_box.listen(Listener(0), fail)
            watching = asyncio.create_task(fresh_box.wait_closed())
            with pytest.raises(SandboxUnavailable):
                await program(fresh_box, port, "c = connected(); time.sleep(600)")
            assert "ZeroDivisionError" in await asyncio.wait_for(watching, PATIENCE)
        finally:
            loop.set_exception_handler(None)
        assert [type(problem) for problem in reported] == [ZeroDivisionError]
