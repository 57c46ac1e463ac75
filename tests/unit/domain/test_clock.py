"""A clock that can be paused."""

import asyncio

from kagura_kernel.domain.clock import PausableClock
from kagura_kernel.testing.clock import FakeClock


async def test_pauses_that_overlap_are_left_out_once():
    under = FakeClock()
    clock = PausableClock(under)
    await under.advance(1)
    with clock.paused():
        await under.advance(2)
        with clock.paused():
            await under.advance(4)
        await under.advance(8)
        assert clock.monotonic() == 1
    await under.advance(16)
    assert clock.monotonic() == 17
    assert clock.now() == under.now()


async def test_whoever_sleeps_is_held_up_too():
    under = FakeClock()
    clock = PausableClock(under)
    sleeping = asyncio.create_task(clock.sleep(10))
    await under.advance(9)
    with clock.paused():
        await under.advance(300)
        assert not sleeping.done()
    await under.advance(0.9)
    assert not sleeping.done()
    await under.advance(0.1)
    assert sleeping.done()
