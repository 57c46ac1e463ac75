import asyncio

from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.box import PipedBox
from tests.support.guests import scripted_guest


class Freed:
    """Counts how often a box was freed."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> None:
        await asyncio.sleep(0.01)
        self.times += 1


def boxed(channel, freed: Freed) -> PipedBox:
    return PipedBox(channel, backend="fake", isolation=IsolationClass.NONE, on_close=freed)


async def test_closing_frees_once_however_often_it_is_asked():
    freed = Freed()
    async with scripted_guest() as (channel, _guest):
        box = boxed(channel, freed)
        await asyncio.gather(box.close(), box.close(), box.close())
        await box.close()
        assert freed.times == 1
        assert await box.wait_closed() == ""


async def test_a_box_that_dies_is_freed_without_being_closed():
    freed = Freed()
    async with scripted_guest() as (channel, guest):
        box = boxed(channel, freed)
        guest.die()
        assert await asyncio.wait_for(box.wait_closed(), 60)
        await box.close()
        assert freed.times == 1


async def test_cancelling_a_close_still_frees():
    freed = Freed()
    async with scripted_guest() as (channel, _guest):
        box = boxed(channel, freed)
        closing = asyncio.create_task(box.close())
        await asyncio.sleep(0.002)
        closing.cancel()
        await box.close()
        assert freed.times == 1


async def test_a_guest_that_could_not_hide_is_told_to_the_reader():
    async with scripted_guest(greet=False) as (channel, guest):
        await guest.say(1, 0, {"version": 1, "hardened": False})
        await channel.hello(5)
        box = boxed(channel, Freed())
        assert len(box.notes) == 1
        await box.close()
