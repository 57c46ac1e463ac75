from __future__ import annotations

import pytest

from kagura_kernel.kit.redaction import patterns
from kagura_kernel.kit.redaction.patterns import Lazy, shortened, ungrouped


@pytest.mark.parametrize("nearby", [False, True])
@pytest.mark.parametrize("refused", ["(a", "(?<=a)b", r"(a)\1"])
def test_a_pattern_that_the_engine_refuses_stops_everything_instead_of_shifting_its_neighbours(
    monkeypatch, refused, nearby
):
    monkeypatch.setattr(patterns, "_EVERY", [("abc", True, nearby), (refused, True, nearby), ("def", True, nearby)])
    with pytest.raises(ValueError, match="refuses the pattern"):
        patterns._Gate(nearby=nearby)


def test_every_pattern_finds_what_it_says_and_not_what_its_neighbour_does():
    first, second = Lazy("kagura-first-[0-9]+"), Lazy("kagura-second-[0-9]+")
    data = b"kagura-second-2 kagura-first-1"
    assert [found.group() for found in first.finditer(data)] == [b"kagura-first-1"]
    assert [found.group() for found in second.finditer(data)] == [b"kagura-second-2"]


def test_a_pattern_without_groups_is_the_same_but_for_them():
    assert ungrouped(r"(a)\((?:b)[(](?i:c)[]()](d)[^](](e)") == r"(?:a)\((?:b)[(](?i:c)[]()](?:d)[^](](?:e)"


def test_a_shortened_pattern_counts_no_further_than_it_is_told():
    assert shortened(r"a{2}b{9}c{3,8}d{3,9}e{12,}f{1,}g{0,40}", 8) == r"a{2}b{8,}c{3,8}d{3,}e{8,}f{1,}g{0,}"
