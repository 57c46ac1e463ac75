import asyncio
from datetime import timedelta

from kagura_kernel.membrane.credentials.broker import sleep_through
from kagura_kernel.testing.clock import FakeClock


class WokenClock(FakeClock):
    """A machine that slept: the time of day went on, the other clock did not."""

    slept = timedelta(0)

    def now(self):
        return super().now() + self.slept


async def test_a_wait_is_as_long_as_it_should_be() -> None:
    clock = FakeClock()
    task = asyncio.create_task(sleep_through(clock, 675))
    await clock.advance(674)
    assert not task.done()
    await clock.advance(1.1)
    assert task.done()


async def test_a_machine_that_slept_is_noticed_soon_after() -> None:
    clock = WokenClock()
    task = asyncio.create_task(sleep_through(clock, 675))
    await clock.advance(10)
    clock.slept = timedelta(hours=8)
    await clock.advance(30)
    assert task.done()


async def test_no_time_at_all_gives_the_others_a_turn() -> None:
    clock = FakeClock()
    task = asyncio.create_task(sleep_through(clock, -5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert task.done()
