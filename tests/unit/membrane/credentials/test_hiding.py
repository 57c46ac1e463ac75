import random
import string

import pytest

from kagura_kernel.membrane.credentials.needles import WIDE, NeedleIndex
from kagura_kernel.membrane.credentials.scrub import LONGEST_GLUE, Hiding

chance = random.Random(3)
SECRET = "ya29." + "".join(chance.choices(string.ascii_letters + string.digits, k=1400))
NESTED = SECRET[600:640]


class Counting(NeedleIndex):
    """Counts what is searched."""

    searched = 0

    def look(self, flat: bytes, text: bytes) -> tuple[list[tuple[int, int]], int]:
        """As always."""
        self.searched += len(text)
        return super().look(flat, text)


@pytest.fixture
def index() -> Counting:
    return Counting([SECRET.encode(), NESTED.encode()], WIDE, strict=True)


def hiding() -> Hiding:
    return Hiding(lambda _size, again: b"" if again else b"*")


def fed(one: Hiding, index: NeedleIndex, data: bytes, size: int = 1) -> bytes:
    return b"".join(one.feed(index, data[at : at + size], data[at : at + size]) for at in range(0, len(data), size))


@pytest.mark.parametrize("piece", ["\n", " \n", "x", "y", "ya29.\n\n", "\nya2"])
def test_each_byte_is_searched_a_few_times_whatever_is_held_back(index: Counting, piece: str) -> None:
    data = SECRET[:1000].encode() + piece.encode() * 3000
    shown = fed(hiding(), index, data)
    assert index.searched < 8 * len(data)
    assert SECRET[:20].encode() in shown
    assert NESTED.encode() not in shown, "a secret within what only looked like a longer one"


def test_a_secret_that_comes_letter_by_letter_is_searched_once(index: Counting) -> None:
    one = hiding()
    assert fed(one, index, b"x " + SECRET.encode() + b" y") + one.finish(index) == b"x * y"
    assert index.searched < 3 * len(SECRET)


def test_line_ends_behind_a_beginning_are_held_back_up_to_a_bound(index: Counting) -> None:
    one = hiding()
    assert fed(one, index, b"ya29." + b"\n" * LONGEST_GLUE) == b""
    assert fed(one, index, b"\n") == b"ya29." + b"\n" * (LONGEST_GLUE + 1)
    assert one.idle


def test_what_is_held_back_is_bounded_by_the_longest_needle(index: Counting) -> None:
    one = hiding()
    wrapped = (" " * 200).join(SECRET[:-1]).encode()
    came = most = 0
    for at in range(len(wrapped)):
        came += len(one.feed(index, wrapped[at : at + 1], wrapped[at : at + 1]))
        most = max(most, at + 1 - came)
    assert most <= 4 * (len(SECRET) + LONGEST_GLUE) + 1


def test_what_overlaps_is_one_also_when_it_comes_in_pieces() -> None:
    both = NeedleIndex([b"abcdefghijklmnopqrst", b"qrstuvwxyz0123456789"], WIDE, strict=True)
    for size in range(1, 40):
        one = hiding()
        assert fed(one, both, b"1 abcdefghijklmnopqrstuvwxyz0123456789 2", size) + one.finish(both) == b"1 * 2"


def test_a_shown_beginning_at_a_line_end_still_counts(index: Counting) -> None:
    one = Hiding(lambda _size, again: b"" if again else b"*", least=4)
    assert fed(one, index, b"x ya2\n", 6) == b"x ya2\n"
    assert fed(one, index, SECRET[3:].encode() + b" z", 50) == b"* z"
