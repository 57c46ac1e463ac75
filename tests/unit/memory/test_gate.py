"""The gate lets a run pass with a memory that works, and says what to do about every other one."""

from __future__ import annotations

import pytest

from kagura_kernel.domain.errors import ConfigurationError, MemoryUnavailable
from kagura_kernel.memory.store import ready
from kagura_kernel.testing.memory import FakeMemory


class Breaks(FakeMemory):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def check(self) -> None:
        raise self.error


def test_a_memory_that_works_lets_a_run_pass():
    ready(FakeMemory())


def test_a_memory_that_says_what_is_wrong_is_heard():
    with pytest.raises(MemoryUnavailable, match="somebody pulled the plug"):
        ready(FakeMemory(broken="somebody pulled the plug"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied"), "permission denied"),
        (ConfigurationError("The memory's URL", ["it is no URL"]), "it is no URL"),
        (ConnectionResetError(), "connectionreseterror"),
    ],
    ids=["the system", "the settings", "no words"],
)
def test_whatever_goes_wrong_is_told_as_an_unreachable_memory(error, told):
    with pytest.raises(MemoryUnavailable, match=told) as refusal:
        ready(Breaks(error))
    assert refusal.value.where == "a dictionary"
    assert "doctor" in str(refusal.value)


def test_a_bug_is_not_told_as_trouble_of_the_memory():
    with pytest.raises(ZeroDivisionError):
        ready(Breaks(ZeroDivisionError()))
