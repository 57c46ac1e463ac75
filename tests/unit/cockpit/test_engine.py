import asyncio
import contextvars
import threading

import pytest

WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")


async def where() -> str:
    return threading.current_thread().name


def test_work_runs_in_a_thread_of_its_own(engine):
    assert engine.call(where()) == "kagura-engine"
    assert threading.current_thread().name != "kagura-engine"


def test_work_carries_the_context_of_whoever_launched_it(engine):
    async def read() -> str:
        await asyncio.sleep(0)
        return WORD.get()

    def launch(word: str) -> str:
        WORD.set(word)
        return engine.call(read())

    assert [contextvars.copy_context().run(launch, word) for word in ("one", "two")] == ["one", "two"]


def test_what_work_raises_comes_back(engine):
    async def fail() -> None:
        raise LookupError("this")

    with pytest.raises(LookupError, match="this"):
        engine.call(fail())


def test_stopping_cancels_what_runs_and_lets_it_clean_up(engine):
    started, cleaned = threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    engine.submit(work())
    assert started.wait(60)
    engine.stop()
    assert cleaned.is_set()
    assert not engine.running
    engine.stop()


def test_a_stopped_engine_starts_again_with_the_next_work(engine):
    engine.call(where())
    engine.stop()
    assert engine.call(where()) == "kagura-engine"
