"""The replay brain: the words and the tool calls come from a cassette, and the tools run for real.

A replay costs nothing: no tokens are counted and the reported cost is 0, so that a ledger never counts the recorded
money again. It does not look at a budget or a limit of turns, since it ends where the recording ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from kagura_kernel.brain.cassette import Called, Cassette, Spoken, read_cassette
from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainDone, BrainEvent, BrainText, Turn
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.tools import ToolCall


class ReplayBrain:
    """Plays one cassette, as often as it is asked to."""

    def __init__(self, path: Path, *, delay: float = 0.0) -> None:
        """A player; the file is looked at when a run begins.

        Args:
            path: The cassette.
            delay: Seconds between two words, for showing how a run looks; 0 gives every text at once.
        """
        self._path = path
        self._delay = delay

    @property
    def name(self) -> str:
        """`replay`."""
        return "replay"

    def resolve_auth(self) -> AuthContext:
        """Ready when the file is there."""
        if self._path.is_file():
            return AuthContext(ready=True, method="none needed", reason=f"{self._path} is played")
        return AuthContext(ready=False, method="none needed", reason=f"there is no cassette {self._path}")

    def capabilities(self) -> BrainCapabilities:
        """It says what it costs, which is nothing."""
        return BrainCapabilities(streaming=self._delay > 0, reports_cost=True)

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Play the cassette. The whole file is checked before its first word.

        Raises:
            CassetteMissing: there is no such file.
            CassetteBroken: it cannot be read, or calls a tool that this run does not have.
        """
        cassette = read_cassette(self._path, [tool.name for tool in turn.tools])
        for entry in cassette.entries:
            if isinstance(entry, Spoken):
                for piece in self._pieces(entry.text):
                    yield BrainText(piece, partial=True)
                    await asyncio.sleep(self._delay)
                yield BrainText(entry.text)
            elif isinstance(entry, Called):
                await _call_all(turn, entry.calls)
        yield _done(cassette)

    def _pieces(self, text: str) -> Iterator[str]:
        if self._delay > 0:
            words = text.split(" ")
            yield from (f"{word} " for word in words[:-1])
            yield words[-1]


def _done(cassette: Cassette) -> BrainDone:
    end = cassette.finished
    return BrainDone(text=end.text, reported_usd=0.0, model=end.model, turns=end.turns, stopped=end.stopped)


async def _call_all(turn: Turn, calls: tuple[ToolCall, ...]) -> None:
    """Make the calls, together if they are several; the first that raises ends the others."""
    # Ids are new in each run: two replays of one cassette are two different sets of calls.
    fresh = [ToolCall(new_call_id(), call.name, call.arguments) for call in calls]
    if len(fresh) == 1:
        await turn.call_tool(fresh[0])
        return
    tasks = [asyncio.ensure_future(turn.call_tool(call)) for call in fresh]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def open_cassette(path: Path) -> tuple[ReplayBrain, str]:
    """A player for a cassette that was looked at, and the task that was recorded.

    Raises:
        CassetteMissing: there is no such file.
        CassetteBroken: it is no cassette, of another version, or cut short.
    """
    return ReplayBrain(path), read_cassette(path).header.task
