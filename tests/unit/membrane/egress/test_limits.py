import asyncio
import socket
from ipaddress import ip_address

import pytest

from kagura_kernel.membrane.egress.gate import dial_first
from kagura_kernel.membrane.egress.stream import FEW, PLACES, Pace, Places
from kagura_kernel.testing.patience import eventually

ADDRESSES = [ip_address(f"1.1.1.{number}") for number in range(1, 5)]


def test_a_burst_goes_at_once_and_the_rest_in_turns() -> None:
    pace = Pace(rate=4, burst=2, patience=0.5)
    assert [pace.take(1000.0) for _ in range(6)] == [0, 0, 0.25, 0.5, None, None]
    # What was refused took no turn, and time brings new ones.
    assert pace.take(1000.25) == 0.5
    assert [pace.take(2000.0) for _ in range(3)] == [0, 0, 0.25]


def test_the_last_places_are_for_runs_that_hold_few() -> None:
    places = Places(lambda: 40)
    assert sum(places.take(FEW) for _ in range(100)) == 30
    assert sum(places.take(FEW - 1) for _ in range(100)) == 10
    places.give()
    assert not places.take(FEW)
    assert places.take(0)


def test_the_connections_of_this_process_leave_most_descriptors_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _kind: (1024, 2**20))
    # One run may still have its 256.
    assert (PLACES.most, PLACES.most - PLACES.most // 4) == (341, 256)


class Silence:
    """Addresses that never answer."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    async def __call__(self, address: object, port: int) -> socket.socket:
        self.tried.append(f"{address}:{port}")
        await asyncio.get_running_loop().create_future()
        raise AssertionError(address)


async def test_addresses_are_tried_side_by_side_only_while_there_are_places() -> None:
    silence, places = Silence(), Places(lambda: 3)
    dialling = asyncio.create_task(dial_first(ADDRESSES, 443, silence, places))
    # Of three places two are for those who hold many.
    await eventually(lambda: places.taken == 3 - 3 // 4 and len(silence.tried) == 1 + places.taken)
    dialling.cancel()
    await asyncio.gather(dialling, return_exceptions=True)
    assert places.taken == 0


async def test_without_places_the_next_address_has_its_turn_when_one_has_failed() -> None:
    ours, theirs = socket.socketpair()
    tried: list[str] = []

    async def one(address: object, port: int) -> socket.socket:
        tried.append(f"{address}:{port}")
        if len(tried) < len(ADDRESSES):
            raise ConnectionRefusedError(111, "Connection refused")
        return ours

    places = Places(lambda: 0)
    assert await dial_first(ADDRESSES, 443, one, places) == (ours, ADDRESSES[-1])
    assert (len(tried), places.taken) == (4, 0)
    ours.close()
    theirs.close()
