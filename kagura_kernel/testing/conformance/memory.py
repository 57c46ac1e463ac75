"""What every memory promises, as a suite: subclass `MemoryConformance`, give it the fixture `rig`, run pytest.

::

    class TestMyMemory(MemoryConformance):
        @pytest.fixture
        def rig(self, tmp_path):
            clock = FakeClock()
            rig = MemoryRig(clock, lambda: MyMemory(tmp_path / new_name(), clock=clock))
            yield rig
            rig.close()

A store that cannot do something by its nature names that in `lacks`, and refuses it with a clear error.
"""

from __future__ import annotations

from kagura_kernel.testing.conformance.memory_crowds import MemoryCrowdsConformance
from kagura_kernel.testing.conformance.memory_graph import MemoryGraphConformance
from kagura_kernel.testing.conformance.memory_keeping import MemoryKeepingConformance
from kagura_kernel.testing.conformance.memory_recall import MemoryRecallConformance
from kagura_kernel.testing.conformance.memory_trust import MemoryTrustConformance


class MemoryConformance(
    MemoryKeepingConformance,
    MemoryRecallConformance,
    MemoryTrustConformance,
    MemoryGraphConformance,
    MemoryCrowdsConformance,
):
    """Keeping, finding, trust, edges and erasure, crowds and moving house."""
