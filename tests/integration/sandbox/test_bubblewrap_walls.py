from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance
from tests.support.lending import LendsBoxes


class TestBubblewrapWalls(LendsBoxes, WallsConformance):
    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared_backend(cls) -> AsyncIterator[BubblewrapBackend]:
        started = BubblewrapBackend()
        yield started
        await started.close()


class TestBubblewrapUnderLoad(LoadConformance):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[BubblewrapBackend]:
        started = BubblewrapBackend()
        yield started
        await started.close()
