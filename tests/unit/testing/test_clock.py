import asyncio
import threading
from datetime import timedelta

import pytest

from kagura_kernel.testing.clock import FakeClock


async def test_time_stands_still_until_it_is_moved():
    clock = FakeClock()
    began = clock.now()

    await clock.advance(90)

    assert clock.now() - began == timedelta(seconds=90)
    assert clock.monotonic() == 90
    assert began.utcoffset() == timedelta(0)


async def test_sleepers_wake_in_the_order_of_their_deadlines_and_see_their_own_time():
    clock = FakeClock()
    woken = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    async with asyncio.TaskGroup() as tasks:
        for seconds in (30, 10, 20):
            tasks.create_task(sleep(seconds))
        await clock.until_sleeping(3)
        await clock.advance(25)
        assert woken == [(10, 10), (20, 20)]
        assert clock.monotonic() == 25
        await clock.advance(5)

    assert woken[-1] == (30, 30)


async def test_one_who_goes_back_to_sleep_is_woken_again_by_the_same_move():
    clock = FakeClock()
    ticks = []

    async def tick() -> None:
        while True:
            await clock.sleep(1)
            ticks.append(clock.monotonic())

    ticker = asyncio.create_task(tick())
    await clock.advance(3)
    ticker.cancel()

    assert ticks == [1, 2, 3]


async def test_a_cancelled_sleeper_is_gone():
    clock = FakeClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    await clock.until_sleeping()

    sleeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeper

    assert clock.sleepers == 0
    await clock.advance(20)


async def test_sleeping_for_nothing_lets_the_others_run():
    clock = FakeClock()
    ran = asyncio.Event()
    asyncio.get_running_loop().call_soon(ran.set)

    await clock.sleep(0)

    assert ran.is_set()


async def test_a_sleeper_on_the_loop_of_another_thread_is_woken_too():
    clock = FakeClock()
    thread = threading.Thread(target=asyncio.run, args=(clock.sleep(60),))
    thread.start()
    await clock.until_sleeping()

    await clock.advance(60)

    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
