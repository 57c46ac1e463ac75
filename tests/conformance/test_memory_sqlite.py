"""The memory in a file keeps every promise of a memory."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.memory import MemoryConformance
from kagura_kernel.testing.conformance.memory_rig import MemoryRig


class TestSqliteMemory(MemoryConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[MemoryRig]:
        clock, numbers = FakeClock(), count()
        paths: list[Path] = []

        def fresh() -> SqliteMemory:
            paths.append(tmp_path / f"memory-{next(numbers)}" / "memory.db")
            return again()

        def again() -> SqliteMemory:
            return SqliteMemory(paths[-1], clock=clock)

        rig = MemoryRig(clock, fresh, again)
        yield rig
        rig.close()
