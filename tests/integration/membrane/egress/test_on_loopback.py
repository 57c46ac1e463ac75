"""The proxy of a box with real sockets: what passes, what does not, and what a hostile program can do to it."""

import asyncio
import os
import socket
from collections.abc import Callable

import httpx
import pytest

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import ApprovalAborted
from kagura_kernel.membrane.egress.policy import Asking
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.patience import eventually

OK = b"HTTP/1.1 200 Connection established"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - a condition of any kind
            await asyncio.sleep(0.01)


async def test_a_granted_target_is_tunnelled_and_bytes_pass_unchanged(proxying, serving, echo):
    async with serving(echo) as port, proxying(f"127.0.0.1:{port}") as proxy:
        status, reader, writer = await proxy.tunnel(f"127.0.0.1:{port}")
        payload = bytes(range(256)) * 400
        writer.write(payload)
        writer.write_eof()
        assert status == OK
        assert await reader.read(-1) == payload
        writer.close()
        await eventually(lambda: len(proxy.records) == 2)
    decided, closed = proxy.records
    assert decided.allowed
    assert (closed.bytes_out, closed.bytes_in, closed.ended) == (len(payload), len(payload), "done")


async def test_what_is_not_granted_is_refused_in_words_that_a_program_shows(proxying):
    async with proxying() as proxy:
        status, reader, writer = await proxy.tunnel("pypi.org:443")
        assert status == (b"HTTP/1.1 403 pypi.org:443 is not granted to this run. Grant it with: --net python-packages")
        assert b"not granted" in await reader.read()
        writer.close()
        async with httpx.AsyncClient(proxy=f"http://127.0.0.1:{proxy.port}", trust_env=False) as client:
            with pytest.raises(httpx.ProxyError, match="--net python-packages"):
                await client.get("https://pypi.org/")
    assert proxy.asked == []


@pytest.mark.parametrize(
    "spelling",
    ["127.0.0.1", "127.1", "0x7f.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "localhost", "[::]", "0"],
)
async def test_another_port_of_this_machine_is_refused_in_every_spelling(spelling, proxying, serving, identity):
    async with (
        serving(identity) as granted,
        serving(identity) as other,
        proxying(f"127.0.0.1:{granted}", "ask") as proxy,
    ):
        proxy.names["localhost"] = [["127.0.0.1", "::1"]]
        status, _, writer = await proxy.tunnel(f"{spelling}:{other}")
        writer.close()
        assert status.startswith(b"HTTP/1.1 403 ")


async def test_a_granted_name_that_leads_to_this_machine_is_refused(proxying, serving, identity):
    async with serving(identity) as port, proxying(f"a.example:{port}", names={"a.example": [["127.0.0.1"]]}) as proxy:
        status, _, writer = await proxy.tunnel(f"a.example:{port}")
        writer.close()
        assert status.startswith(b"HTTP/1.1 403 ")
        assert b"loopback" in status


async def test_an_answer_that_changes_after_the_check_changes_nothing(proxying, serving, identity):
    async with serving(identity) as port, serving(identity, "127.0.0.2", 0) as other:
        words = (f"a.example:{port}", f"127.0.0.1:{port}")
        names = {"a.example": [["127.0.0.1"], ["127.0.0.2"]]}
        async with proxying(*words, names=names) as proxy:
            _, reader, writer = await proxy.tunnel(f"a.example:{port}")
            assert await reader.read() == f"I am 127.0.0.1 {port}".encode()
            writer.close()
            assert proxy.asked == ["a.example"]
            # The next connection is a new one: asked anew, checked anew, and refused.
            status, _, writer = await proxy.tunnel(f"a.example:{port}")
            writer.close()
            assert status.startswith(b"HTTP/1.1 403 ")
        assert other


async def one_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with the request that it got, as far as the first one goes, and keeps the connection open."""
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(head), head))
    await writer.drain()


async def test_plain_http_is_one_request_without_what_was_meant_for_the_proxy(proxying, serving):
    async with serving(one_page) as port, proxying(f"127.0.0.1:{port}") as proxy:
        async with httpx.AsyncClient(
            proxy=httpx.Proxy(f"http://127.0.0.1:{proxy.port}", auth=("user", "secret")), trust_env=False
        ) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/x?y", headers={"X-Mine": "1"})
        head = answer.text.lower()
        assert answer.status_code == 200
        assert head.startswith(f"get /x?y http/1.1\r\nhost: 127.0.0.1:{port}\r\n")
        assert "proxy-" not in head
        assert "x-mine: 1" in head


async def test_a_redirect_is_a_new_question(proxying, serving, identity):
    async with serving(identity) as hidden:

        async def redirects(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            place = f"http://127.0.0.1:{hidden}/"
            writer.write(f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()

        async with serving(redirects) as port, proxying(f"127.0.0.1:{port}") as proxy:
            client = httpx.AsyncClient(proxy=f"http://127.0.0.1:{proxy.port}", trust_env=False, follow_redirects=True)
            async with client:
                answer = await client.get(f"http://127.0.0.1:{port}/")
    assert answer.status_code == 403
    assert f"127.0.0.1:{hidden}" in answer.text


async def test_a_second_request_does_not_slip_in_behind_the_first(proxying, serving):
    seen = bytearray()

    async def listens(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while data := await reader.read(65536):
            seen.extend(data)

    async with serving(listens) as port, proxying(f"127.0.0.1:{port}") as proxy:
        first = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 2\r\n\r\n"
        reader, writer = await proxy.open()
        writer.write(first.encode() + b"ok")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /admin HTTP/1.1\r\nHost: other.example\r\n\r\n")
        with pytest.raises(ConnectionError):  # noqa: PT012 - the end of file comes first where the reset is late
            if not await reader.read():
                raise ConnectionResetError
        writer.close()
    assert seen.endswith(b"ok")
    assert b"admin" not in seen


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\nHost: a.example\n\n",
        b"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
        b"PUT http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello\n",
    ],
)
async def test_what_could_be_read_in_two_ways_is_answered_once_and_closed(request_bytes, proxying):
    async with proxying("a.example:80") as proxy:
        answer = await proxy.ask(request_bytes)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
    assert (proxy.asked, proxy.records) == ([], [])


async def test_socks_clients_are_served_by_the_same_rules(proxying, serving, identity):
    async with serving(identity) as port, proxying(f"127.0.0.1:{port}") as proxy:

        async def connect(address: bytes) -> bytes:
            return await proxy.ask(b"\x05\x01\x00\x05\x01\x00" + address + port.to_bytes(2, "big"))

        granted = await connect(b"\x01\x7f\x00\x00\x01")
        assert granted[:4] == b"\x05\x00\x05\x00"
        assert granted.endswith(f"I am 127.0.0.1 {port}".encode())
        assert (await connect(b"\x03\x09a.example"))[:4] == b"\x05\x00\x05\x02"
        assert (await connect(b"\x01\x7f\x00\x00\x02"))[:4] == b"\x05\x00\x05\x02"


async def test_a_host_that_refuses_connections_is_a_bad_gateway(proxying):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with proxying(f"127.0.0.1:{port}") as proxy:
            status, _, writer = await proxy.tunnel(f"127.0.0.1:{port}")
            writer.close()
    assert status.startswith(b"HTTP/1.1 502 ")
    assert proxy.records[-1].ended == "unreachable"


async def test_two_hundred_connections_at_once_all_succeed(proxying, serving, echo):
    async with serving(echo) as port, proxying(f"127.0.0.1:{port}") as proxy:
        target = f"127.0.0.1:{port}"

        async def once(number: int) -> bool:
            status, reader, writer = await proxy.tunnel(target)
            payload = f"{number}".encode() * 3000
            writer.write(payload)
            writer.write_eof()
            same = await reader.read(-1) == payload
            writer.close()
            return same and status == OK

        assert all(await asyncio.gather(*(once(number) for number in range(200))))


async def test_fifty_connections_to_an_unknown_host_are_one_question(proxying):
    approver = ScriptedApprover(Verdict.ALLOW)
    async with proxying("ask", asking=Asking(approver), names={"a.example": [["10.0.0.1"]]}) as proxy:
        answers = await asyncio.gather(*(proxy.ask(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n") for _ in range(50)))
    # It was approved, and its address is still refused: an approval is about the host.
    assert {answer.split(b" ")[1] for answer in answers} == {b"403"}
    assert all(b"a private network" in answer for answer in answers)
    assert len(approver.requests) == 1


async def test_a_run_that_is_called_off_by_the_answer_is_told_to_whoever_opened_the_egress(proxying):
    async with proxying("ask", asking=Asking(ScriptedApprover(Verdict.ABORTED))) as proxy:
        answer = await proxy.ask(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
        assert b"called off" in answer
        await eventually(lambda: proxy.problems)
        assert [type(problem) for problem in proxy.problems] == [ApprovalAborted]
        proxy.problems.clear()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count


async def test_closing_the_box_leaves_no_descriptor_and_no_task_behind(proxying, serving, echo):
    async with serving(echo) as port:
        tasks, before = asyncio.all_tasks(), descriptors()
        async with proxying(f"127.0.0.1:{port}") as proxy:
            opened = [await proxy.tunnel(f"127.0.0.1:{port}") for _ in range(5)]
            half = [await proxy.open() for _ in range(5)]
        for _, _, writer in opened:
            writer.close()
        for _, writer in half:
            writer.close()
        await until(lambda: not asyncio.all_tasks() - tasks and descriptors() <= before)
    assert [record.ended for record in proxy.records if record.kind == "egress.closed"] == ["cancelled"] * 5
