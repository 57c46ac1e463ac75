from __future__ import annotations

import asyncio
import time

import pytest

from kagura_kernel.brain.provider import BrainDone
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events


async def test_a_step_can_depend_on_what_the_tools_said():
    brain = FakeBrain([Ask("echo", {"word": "a"}), lambda results: f"It said {results[-1].text!r}."])
    done = (await all_events(brain, a_turn(ToolLog())))[-1]
    assert isinstance(done, BrainDone)
    assert done.text == "It said 'echo: a'."


async def test_it_raises_what_stands_in_its_script():
    with pytest.raises(BrainLost):
        await all_events(FakeBrain(["Hi.", BrainLost("fake", "it was told to")]), a_turn(ToolLog()))


async def test_it_keeps_the_turns_it_was_given():
    brain = FakeBrain()
    turn = a_turn(ToolLog(), model="x")
    await all_events(brain, turn)
    assert brain.turns == [turn]


async def test_without_a_sign_in_it_does_not_think():
    brain = FakeBrain(ready=False)
    with pytest.raises(BrainNotConfigured):
        await all_events(brain, a_turn(ToolLog()))
    assert brain.turns == []


async def test_it_stops_when_the_turns_are_used_up():
    script = [Ask("echo", {"word": "a"})] * 5
    done = (await all_events(FakeBrain(script), a_turn(ToolLog(), max_turns=2)))[-1]
    assert isinstance(done, BrainDone)
    assert (done.stopped, done.turns) == ("turns", 2)


async def test_without_a_price_it_reports_none_and_knows_no_budget():
    brain = FakeBrain(usd_per_round=None)
    done = (await all_events(brain, a_turn(ToolLog(), budget_usd=0.0)))[-1]
    assert isinstance(done, BrainDone)
    assert done.reported_usd is None
    assert not brain.capabilities().budget


async def test_it_can_take_its_time_to_stop():
    run = asyncio.create_task(all_events(FakeBrain([Hang()], slow_to_stop=0.2), a_turn(ToolLog())))
    await asyncio.sleep(0.02)
    began = time.monotonic()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert time.monotonic() - began >= 0.19


async def test_it_can_hang_for_a_while_only():
    done = (await all_events(FakeBrain([Hang(0.01), "Awake."]), a_turn(ToolLog())))[-1]
    assert isinstance(done, BrainDone)
    assert done.text == "Awake."
