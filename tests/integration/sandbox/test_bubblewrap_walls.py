from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance


@pytest.fixture
async def backend() -> AsyncIterator[BubblewrapBackend]:
    started = BubblewrapBackend()
    yield started
    await started.close()


class TestBubblewrapWalls(WallsConformance):
    pass


class TestBubblewrapUnderLoad(LoadConformance):
    pass
