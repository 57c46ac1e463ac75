"""Which of several packages brings a part is never an accident."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from kagura_kernel.domain.extensions import BRAINS, installed


def entries(*values: str) -> list[EntryPoint]:
    return [EntryPoint("orchid", value, BRAINS) for value in values]


@pytest.mark.parametrize("values", [("one:make", "two:make"), ("one:make", "two:make", "two:make")])
def test_a_name_that_two_packages_bring_is_used_by_neither(values):
    for given in (entries(*values), entries(*reversed(values))):
        assert "one of the same name" in installed(BRAINS, found=given)["orchid"].problem


def test_a_part_that_is_seen_twice_is_one():
    assert installed(BRAINS, found=entries("one:make", "one:make"))["orchid"].problem == ""
