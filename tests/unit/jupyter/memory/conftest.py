import pytest

from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.memory import FakeMemory


@pytest.fixture
def memory():
    return FakeMemory(clock=FakeClock())
