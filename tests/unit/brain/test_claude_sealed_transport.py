"""The program in a box as the SDK's transport: lines as they come, bounded, and no faster than they can be read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from claude_agent_sdk import CLIConnectionError

from kagura_kernel.brain import claude_sealed_talk
from kagura_kernel.brain.claude_sealed_talk import SealedProgram, Throttle


class SpokenProgram:
    """A program that says what is written down."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks
        self.heard = b""
        self.killed = False

    async def output(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk

    async def write(self, data: bytes) -> None:
        if self.killed:
            raise ConnectionResetError
        self.heard += data

    def kill(self) -> None:
        self.killed = True

    async def close(self) -> None:
        self.killed = True

    def ending(self) -> str:
        return "it was stopped" if self.killed else ""

    def last_words(self) -> str:
        return "the end"


class Place:
    """Where it is started."""

    api, root = "http://127.0.0.1:1", False
    environment: Mapping[str, str] = {}

    def __init__(self, *chunks: bytes) -> None:
        self.program = SpokenProgram(chunks)
        self.started: list[tuple[Sequence[str], Mapping[str, str]]] = []
        self.texts: dict[str, str] = {}

    async def put(self, name: str, text: str) -> str:
        self.texts[name] = text
        return f"/kept/{name}"

    async def start(self, argv: Sequence[str], env: Mapping[str, str]) -> SpokenProgram:
        self.started.append((argv, env))
        return self.program


async def messages(*chunks: bytes) -> list[dict[str, Any]]:
    program = SealedProgram(Place(*chunks), ["claude"], {}, "")
    await program.connect()
    return [message async for message in program.read_messages()]


async def test_its_system_prompt_is_a_file_in_the_box():
    place = Place()
    program = SealedProgram(place, ["claude", "--system={system}"], {"A": "1"}, "be good")
    await program.connect()
    assert place.started == [(["claude", "--system=/kept/system.txt"], {"A": "1"})]
    assert place.texts == {"system.txt": "be good"}
    assert program.is_ready()
    await program.write("hello")
    assert place.program.heard == b"hello"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_messages_are_lines_however_they_are_cut(size):
    data = b'{"a": 1}\nno message\n\n{"b": "' + b"x" * 50 + b'"}\n{"half'
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert await messages(*chunks) == [{"a": 1}, {"b": "x" * 50}]


async def test_a_long_message_is_read_too():
    long = {"text": "x" * 500_000}
    assert await messages(json.dumps(long).encode() + b"\n") == [long]


async def test_a_message_without_end_ends_the_program(monkeypatch):
    monkeypatch.setattr(claude_sealed_talk, "LONGEST_LINE", 100)
    with pytest.raises(CLIConnectionError, match="without end"):
        await messages(*[b"x" * 60] * 3)


async def test_a_program_that_was_stopped_before_it_began_is_not_started():
    place = Place()
    program = SealedProgram(place, ["claude"], {}, "")
    program.kill()
    await program.connect()
    assert place.started == []
    with pytest.raises(CLIConnectionError, match="not started"):
        await program.write("hello")


async def test_a_program_that_is_gone_is_told_of():
    program = SealedProgram(Place(), ["claude"], {}, "")
    await program.connect()
    program.kill()
    with pytest.raises(CLIConnectionError, match="does not read any more"):
        await program.write("hello")
    assert (program.ending(), program.last_words(), program.is_ready()) == ("it was stopped", "the end", False)


def test_reading_waits_only_for_who_comes_too_fast():
    throttle = Throttle(rate=10, burst=100)
    assert throttle.take(0.0, 100) == 0.0
    assert throttle.take(0.0, 10) == pytest.approx(1.0)
    assert throttle.take(1.0, 10) == pytest.approx(1.0)
    assert throttle.take(100.0, 100) == 0.0
