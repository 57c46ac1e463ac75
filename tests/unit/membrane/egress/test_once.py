import asyncio

import pytest

from kagura_kernel.membrane.egress.policy import Once


class Work:
    """Counts how often it is begun and cancelled, and ends when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> str:
        self.begun += 1
        try:
            return await self.end
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def test_many_wait_and_one_works():
    once, work = Once(), Work()
    waiting = [asyncio.create_task(once.share("key", work)) for _ in range(100)]
    await asyncio.sleep(0)
    assert len(once) == 1
    work.end.set_result("done")
    assert await asyncio.gather(*waiting) == ["done"] * 100
    assert (work.begun, len(once)) == (1, 0)


async def test_what_is_finished_is_forgotten():
    once = Once()

    async def work() -> int:
        return next(numbers)

    numbers = iter([1, 2])
    assert [await once.share("key", work), await once.share("key", work)] == [1, 2]


async def test_an_error_reaches_everybody_who_waits():
    once, work = Once(), Work()
    waiting = [asyncio.create_task(once.share("key", work)) for _ in range(3)]
    await asyncio.sleep(0)
    work.end.set_exception(OSError("gone"))
    assert [str(error) for error in await asyncio.gather(*waiting, return_exceptions=True)] == ["gone"] * 3


async def test_one_who_leaves_takes_nothing_from_the_others_and_the_last_one_ends_the_work():
    once, work = Once(), Work()
    first, second = (asyncio.create_task(once.share("key", work)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (work.cancelled, "key" in once) == (0, True)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await asyncio.sleep(0)
    assert (work.cancelled, "key" in once) == (1, False)


async def test_work_begun_after_the_last_one_left_is_new():
    once, work = Once(), Work()
    first = asyncio.create_task(once.share("key", work))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    again = Work()
    second = asyncio.create_task(once.share("key", again))
    await asyncio.sleep(0)
    again.end.set_result("new")
    assert await second == "new"
