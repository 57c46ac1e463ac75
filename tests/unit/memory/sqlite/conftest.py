from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "memory.db"


@pytest.fixture
def opened(path: Path, clock: FakeClock) -> Iterator[Callable[[], SqliteMemory]]:
    stores: list[SqliteMemory] = []

    def open_one() -> SqliteMemory:
        stores.append(SqliteMemory(path, clock=clock))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[[], SqliteMemory]) -> SqliteMemory:
    return opened()
