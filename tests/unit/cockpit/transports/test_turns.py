"""Messages of one thread are understood in the order in which they came, and what is stopped begins nothing."""

from __future__ import annotations

import asyncio

from kagura_kernel.cockpit.transports.transport import Turn, Turns


async def test_a_turn_comes_when_all_before_it_in_its_thread_are_over():
    turns, order = Turns(), []
    first, second, third = (turns.enter("room:1") for _ in range(3))
    elsewhere = turns.enter("room:2")

    async def take(turn: Turn, name: str) -> None:
        await turns.come(turn)
        order.append(name)
        turns.leave(turn)

    waiting = [asyncio.ensure_future(take(turn, name)) for turn, name in ((third, "third"), (second, "second"))]
    await take(elsewhere, "elsewhere")
    assert order == ["elsewhere"]
    await take(first, "first")
    await asyncio.gather(*waiting)
    assert order == ["elsewhere", "first", "second", "third"]


async def test_what_has_left_is_not_there_to_be_stopped():
    turns = Turns()
    first, second = turns.enter("room:1"), turns.enter("room:1")
    other = turns.enter("room:2")
    assert turns.begins("room:1") == [first.run_id, second.run_id]
    assert turns.begins() == [first.run_id, second.run_id, other.run_id]
    turns.leave(first)
    turns.leave(first)
    turns.stop([first.run_id, second.run_id], "ann")
    assert (first.stopped_by, second.stopped_by, other.stopped_by) == ("", "ann", "")
    assert turns.begins("room:1") == [second.run_id]
