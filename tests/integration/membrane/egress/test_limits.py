"""What crosses the wall is cut exactly at its limit, looks cut, and is never held in memory.

Boxes with walls, and servers on the loopback of the host.
"""

from __future__ import annotations

import asyncio
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


@pytest.mark.slow
async def test_two_gibibytes_are_the_limit_of_one_download_unless_another_is_set(some_walls, proxying, serving):
    async with serving(endless) as port, proxying(f"127.0.0.1:{port}", backend=some_walls()) as proxy:
        before = await peaks(proxy, anew=True)
        result = await proxy.sh(f"{CURL} http://127.0.0.1:{port}/")
        after = await peaks(proxy)
        await eventually(lambda: proxy.records[-1].kind == "egress.closed")
    assert (proxy.records[-1].ended, proxy.records[-1].bytes_in) == ("limit", 2**31)
    assert result.exit_code == 56
    assert 2**31 - 64 * MIB < int(result.stdout.text.split()[0]) <= 2**31
    assert is_flat(before, after), (before, after)


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
