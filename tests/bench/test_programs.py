import asyncio

import pytest

from tests.bench.contenders import mitmproxy_program, serving
from tests.bench.harness import Missing
from tests.bench.membrane_boxes import outside


@pytest.mark.parametrize("way", ["direct", "relay"])
async def test_the_client_gets_all_that_it_asks_for(way):
    async with serving("server.py") as server, serving("relay.py", str(server)) as relay:
        ask = outside(relay if way == "relay" else server)

        assert len(await ask("connect", 3)) == 3
        assert (await ask("many", 20))["failed"] == 0
        assert await ask("download", 3 * 2**20 + 1) > 0
        assert len(await ask("request", 2)) == 2


async def test_a_download_that_is_cut_is_no_figure():
    async def hang_up(reader, writer):
        await reader.readexactly(9)
        writer.write(b"not all of it")
        writer.close()

    cutting = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with cutting:
        with pytest.raises(RuntimeError, match="bytes of 100 are missing"):
            await outside(cutting.sockets[0].getsockname()[1])("download", 100)


async def test_connections_without_an_answer_are_counted():
    came = []

    async def answer_some(reader, writer):
        came.append(writer)
        if len(came) <= 3:
            writer.write(await reader.readexactly(1))
        writer.close()

    picky = await asyncio.start_server(answer_some, "127.0.0.1", 0)
    async with picky:
        answer = await outside(picky.sockets[0].getsockname()[1])("many", 5)

    assert (len(came), answer["failed"]) == (5, 2)


async def test_a_proxy_that_refuses_is_an_error_and_no_figure():
    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 no\r\n\r\n")
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with proxy:
        with pytest.raises(RuntimeError, match="403 no"):
            await outside(1, proxy.sockets[0].getsockname()[1])("connect", 1)


def test_mitmproxy_that_cannot_be_installed_is_missing_and_leaves_nothing(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nmkdir -p "$4/bin"\necho "the disk is full" >&2\nexit 1\n', "ascii")
    python.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.setattr("tests.bench.contenders.MITMPROXY", tmp_path / "out" / "mitmproxy")
    monkeypatch.setattr("tests.bench.contenders.MITMDUMP", tmp_path / "out" / "mitmproxy" / "bin" / "mitmdump")

    with pytest.raises(Missing, match="mitmproxy cannot be installed: the disk is full"):
        mitmproxy_program()

    assert list((tmp_path / "out").iterdir()) == []
