"""Why a container ended, from what the daemon tells."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.sandbox.docker.engine import DockerEvents, End
from kagura_kernel.sandbox.docker_endpoint import Endpoint

SECOND = 10**9


def event(action: str, name: str = "box-1", at: int = SECOND, code: str = "137") -> dict[str, Any]:
    return {"Action": action, "timeNano": at, "Actor": {"Attributes": {"name": name, "exitCode": code}}}


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (End(), ""),
        (End(137, 2 * SECOND, SECOND), "out of memory"),
        (End(137, 60 * SECOND, SECOND), "was killed"),
        (End(137, SECOND), "was killed"),
        (End(1, SECOND), "exit code 1"),
    ],
)
def test_an_end_is_told_in_half_a_sentence(end: End, words: str):
    assert words in end.why()
    assert bool(end.why()) == bool(words)


@asynccontextmanager
async def told_by(tmp_path: Path, *lines: bytes, stay: bool = True) -> AsyncIterator[DockerEvents]:
    """Events of a daemon that tells these lines, then stays silent or goes away."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        for line in lines:
            writer.write(line + b"\n")
        if stay:
            await reader.read()
        writer.close()

    path = tmp_path / "engine.sock"
    server = await asyncio.start_unix_server(serve, path)
    events = DockerEvents(Endpoint(f"unix://{path}"), "holder")
    events.expect("box-1")
    async with server:
        await events.listen("1.41")
        yield events
        await events.close()


async def test_a_starved_box_is_told_from_a_killed_one(tmp_path: Path):
    lines = [json.dumps(event("oom")), json.dumps(event("die", "box-2")), json.dumps(event("die", at=2 * SECOND))]
    async with told_by(tmp_path, *(line.encode() for line in lines)) as events:
        assert "out of memory" in await events.why("box-1", 5)
        assert await events.why("box-3", 0.01) == ""


async def test_without_news_nothing_is_made_up(tmp_path: Path):
    async with told_by(tmp_path) as events:
        assert await events.why("box-1", 0.01) == ""
        events.forget("box-1")
        assert await events.why("box-1", 0.01) == ""


@pytest.mark.parametrize("line", [b"{}", b"not json"])
async def test_a_daemon_that_went_away_is_the_reason(tmp_path: Path, line: bytes):
    async with told_by(tmp_path, line, stay=False) as events:
        assert "daemon went away" in await events.why("box-1", 5)
        assert not events.connected


async def test_a_daemon_that_is_not_there_is_an_error(tmp_path: Path):
    events = DockerEvents(Endpoint(f"unix://{tmp_path / 'none.sock'}"), "holder")
    with pytest.raises(OSError, match=r"none\.sock|No such file"):
        await events.listen("1.41")
    await events.close()
    await events.close()
