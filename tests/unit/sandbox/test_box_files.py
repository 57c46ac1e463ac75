"""What the host believes of what a box says about its files."""

import pytest

from kagura_kernel.sandbox.files import read_change, read_lines, read_stat
from kagura_kernel.sandbox.streams import WireError

STAT = {"path": "a", "kind": "file", "size": 1, "mode": 0o644, "modified": 1.5, "target": ""}
LINE = b'{"path":"a","kind":"file","size":1,"mode":420,"modified":%s}\n'


@pytest.mark.parametrize("modified", [-3, 0, 1.5, 2**60])
def test_a_time_is_a_number(modified: float) -> None:
    assert read_stat(STAT | {"modified": modified}).modified == float(modified)


@pytest.mark.parametrize(
    "modified",
    [10**400, -(10**400), float("inf"), float("-inf"), float("nan"), 1e300, True, None, "1"],
    ids=lambda value: str(value)[:8],
)
def test_a_time_that_no_file_has_is_no_word_of_a_guest(modified: object) -> None:
    with pytest.raises(WireError, match="time"):
        read_stat(STAT | {"modified": modified})


@pytest.mark.parametrize("modified", [b"Infinity", b"-Infinity", b"NaN", b"9" * 400, b"9" * 5000, b"1e400"])
def test_no_number_in_a_list_does_more_than_end_it(modified: bytes) -> None:
    with pytest.raises(WireError):
        read_lines(LINE % modified, read_stat)


@pytest.mark.parametrize("field", ["path", "target"])
def test_half_a_character_is_in_no_name(field: str) -> None:
    told = {"path": "a", "status": "added", "kind": "link", "size": 1, "mode": 0o644, "target": "b"}
    assert getattr(read_change(told | {field: "odd-\udcff"}), field) == "odd-\udcff"
    for read in (read_change, read_stat):
        with pytest.raises(WireError, match="none"):
            read({**STAT, **told, field: "\ud800"})
