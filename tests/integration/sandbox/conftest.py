from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend


@pytest.fixture
async def backend() -> AsyncIterator[BubblewrapBackend]:
    started = BubblewrapBackend()
    yield started
    await started.close()
