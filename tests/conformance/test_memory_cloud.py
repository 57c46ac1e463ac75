"""The memory in the cloud keeps every promise that the cloud can express, against the shipped fake of its server."""

from collections.abc import Iterator

import pytest

from kagura_kernel.memory.cloud.store import CloudMemory
from kagura_kernel.memory.cloud.wire import CloudAccess
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.memory import MemoryConformance
from kagura_kernel.testing.conformance.memory_rig import (
    ANY_MOMENT,
    COUNTED_FEEDBACK,
    IDS,
    MANY_EDGES,
    NEIGHBOURS,
    MemoryRig,
)
from tests.support.memory_cloud.server import CONTEXT, KEY, FakeMemoryCloudServer


class TestCloudMemory(MemoryConformance):
    lacks = frozenset({ANY_MOMENT, COUNTED_FEEDBACK, IDS, MANY_EDGES, NEIGHBOURS})

    @pytest.fixture
    def rig(self) -> Iterator[MemoryRig]:
        clock = FakeClock()
        with FakeMemoryCloudServer(now=clock.now) as server:

            def again() -> CloudMemory:
                return CloudMemory(CloudAccess(server.mcp_url, CONTEXT, KEY), clock=clock)

            def fresh() -> CloudMemory:
                server.empty()
                return again()

            rig = MemoryRig(clock, fresh, again)
            yield rig
            rig.close()
