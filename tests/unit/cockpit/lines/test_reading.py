from __future__ import annotations

import pytest

from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS
from kagura_kernel.cockpit.lines.words import LARGEST_COUNT, LARGEST_USD, LONGEST_SECONDS, Unreadable, read
from kagura_kernel.domain.grammar import Argument, Kind, Option

NUMBERS = {Kind.COUNT: LARGEST_COUNT, Kind.SECONDS: LONGEST_SECONDS, Kind.USD: LARGEST_USD}
SLOTS = [slot for form in (*COMMANDS, *CELL_MAGICS) for slot in (*form.arguments, *form.options)]
UNWRITABLE = "bad \udcff"


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_has_an_upper_bound_which_is_said(kind):
    option = Option(("--it",), "a number", kind)
    most = NUMBERS[kind]
    assert read(option, str(most)) == most
    for text in (str(most + 1), "9" * 40):
        with pytest.raises(Unreadable, match=f"too large; it can be {most:,} at most"):
            read(option, text)


def test_a_number_with_more_digits_than_python_reads_is_none():
    with pytest.raises(Unreadable, match="no whole number"):
        read(Option(("--it",), "a number", Kind.COUNT), "9" * 5000)


@pytest.mark.parametrize("kind", sorted({slot.kind for slot in SLOTS if slot.kind}, key=str))
def test_bytes_that_are_no_text_are_refused_wherever_no_file_is_named(kind):
    slot = Argument("it", kind, "anything", choices=("a",))
    if kind in {Kind.FILE, Kind.DIRECTORY, Kind.NOTEBOOK}:
        assert str(read(slot, UNWRITABLE)) == UNWRITABLE
        return
    with pytest.raises(Unreadable, match="no text in UTF-8"):
        read(slot, UNWRITABLE)
