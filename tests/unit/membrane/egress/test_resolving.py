import asyncio
import threading

import pytest

from kagura_kernel.domain.errors import EgressUnreachable
from kagura_kernel.membrane.egress.gate import Gate, SystemResolver
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.egress.stream import EgressLimits


async def test_this_machine_knows_itself_and_each_address_stands_there_once():
    resolver = SystemResolver(threads=1)
    answers = await resolver("localhost", 80)
    assert "127.0.0.1" in answers
    assert len(answers) == len(set(answers))


async def test_a_name_of_this_machine_is_found_and_then_refused_for_its_address():
    resolver = SystemResolver(threads=1)
    with pytest.raises(Exception, match="loopback"):
        await Gate(parse_grants(["localhost:80"]), resolver).admit("localhost", 80)


@pytest.fixture
def hanging(monkeypatch):
    """Every look-up hangs until the event is set; the list holds the threads that do."""
    free, threads = threading.Event(), []

    def hang(host: str, port: int) -> list[str]:
        del host, port
        threads.append(threading.current_thread())
        free.wait(60)
        return ["1.1.1.1"]

    monkeypatch.setattr("kagura_kernel.membrane.egress.gate._look_up", hang)
    yield free, threads
    free.set()
    for thread in threads:
        thread.join()


async def test_a_look_up_that_hangs_is_left_behind_and_cannot_hold_the_process(hanging):
    _, threads = hanging
    gate = Gate(parse_grants(["a.example"]), SystemResolver(), limits=EgressLimits(resolve=0.05))
    with pytest.raises(EgressUnreachable, match="could not be looked up within"):
        await gate.admit("a.example", 443)
    assert [thread.daemon for thread in threads] == [True]


async def test_a_thread_that_was_left_behind_keeps_its_place_until_it_is_free(hanging):
    free, threads = hanging
    resolver = SystemResolver(threads=1)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(resolver("a.example", 443), 0.05)
    assert len(threads) == 1
    free.set()
    assert await resolver("a.example", 443) == ["1.1.1.1"]
