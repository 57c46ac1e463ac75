"""The calls of one round, made as they may be: what changes nothing together, everything else one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.tools import ToolCall, ToolResult


async def make_calls(turn: Turn, calls: Sequence[ToolCall]) -> list[ToolResult]:
    """The results, in the order of the calls. Cancelled, or when one raises, the others are cancelled and have ended.

    Raises:
        Exception: what the first of them raised.
    """
    together = {spec.name: spec.read_only or spec.side_by_side for spec in turn.tools}
    results: list[ToolResult] = []
    for group in _groups(calls, together):
        results += await _at_once(turn, group)
    return results


def _groups(calls: Sequence[ToolCall], together: Mapping[str, bool]) -> Iterator[list[ToolCall]]:
    """Neighbours that may be made at once."""
    group: list[ToolCall] = []
    for call in calls:
        if together.get(call.name):
            group.append(call)
            continue
        if group:
            yield group
        yield [call]
        group = []
    if group:
        yield group


async def _at_once(turn: Turn, calls: Sequence[ToolCall]) -> list[ToolResult]:
    tasks = [asyncio.ensure_future(turn.call_tool(call)) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
