from __future__ import annotations

import pytest

from kagura_kernel.kit.redaction import patterns
from kagura_kernel.kit.redaction.patterns import Lazy


@pytest.mark.parametrize("refused", ["(a", "(?<=a)b", r"(a)\1"])
def test_a_pattern_that_the_engine_refuses_stops_everything_instead_of_shifting_its_neighbours(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    monkeypatch.setattr(patterns, "_EVERY", [("abc", True), (refused, True), ("def", True)])
    with pytest.raises(ValueError, match="refuses the pattern"):
        patterns._Gate()


def test_every_pattern_finds_what_it_says_and_not_what_its_neighbour_does() -> None:
    first, second = Lazy("kagura-first-[0-9]+"), Lazy("kagura-second-[0-9]+")
    data = b"kagura-second-2 kagura-first-1"
    assert [found.group() for found in first.finditer(data)] == [b"kagura-first-1"]
    assert [found.group() for found in second.finditer(data)] == [b"kagura-second-2"]
