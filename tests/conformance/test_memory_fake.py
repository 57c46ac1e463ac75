"""The memory in a dictionary keeps every promise of a memory."""

from collections.abc import Iterator

import pytest

from kagura_kernel.domain.errors import MemoryUnavailable
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.memory import MemoryConformance
from kagura_kernel.testing.conformance.memory_rig import MemoryRig
from kagura_kernel.testing.memory import FakeMemory


class TestFakeMemory(MemoryConformance):
    @pytest.fixture
    def rig(self) -> Iterator[MemoryRig]:
        clock = FakeClock()
        rig = MemoryRig(clock, lambda: FakeMemory(clock=clock))
        yield rig
        rig.close()

    def test_it_can_be_made_to_fail(self):
        broken = FakeMemory(broken="somebody pulled the plug")
        with pytest.raises(MemoryUnavailable, match="somebody pulled the plug"):
            broken.check()
