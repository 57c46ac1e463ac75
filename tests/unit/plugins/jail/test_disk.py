"""Room on the disks of the host: seen before it is gone."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from kagura_kernel.plugins.jail.box import until_full, why_full
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually

MIB = 2**20
PLACE = Path("/data")


def disk(total_mib: int, free_mib: int, files: int = 1000, free_files: int = 900) -> SimpleNamespace:
    return SimpleNamespace(f_blocks=total_mib, f_frsize=MIB, f_bavail=free_mib, f_files=files, f_favail=free_files)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (disk(100_000, 2000), ""),
        (disk(100_000, 1000), "no more than 1000 MiB left"),
        (disk(1000, 200), ""),
        (disk(1000, 90), "no more than 90 MiB left"),
        (disk(100_000, 2000, 1000, 10), "no more than 10 files left"),
        (disk(100_000, 2000, 0, 0), ""),
    ],
)
def test_a_disk_is_full_before_nothing_is_left(found, why):
    told = why_full(PLACE, found)
    assert bool(told) == bool(why)
    assert why in told


async def test_it_is_looked_at_again_and_again_until_it_is_full():
    clock, room = FakeClock(), {"free": 5000}
    task = asyncio.ensure_future(until_full([PLACE], clock, look=lambda _: disk(100_000, room["free"])))
    for _ in range(20):
        await eventually(lambda: clock.sleepers)
        await clock.advance(0.25)
    await eventually(lambda: clock.sleepers)
    room["free"] = 5
    await clock.advance(0.25)
    assert "5 MiB left" in await task


async def test_a_place_that_is_gone_has_no_room(tmp_path):
    assert "no such file" in await until_full([tmp_path / "gone"], FakeClock())
