"""The log of a jail: bounded, whole lines, and a flood is noticed."""

from kagura_kernel.plugins.jail.box import BURST, RATE, JailLog
from kagura_kernel.testing.clock import FakeClock


def test_the_last_of_it_is_kept_in_whole_lines():
    log = JailLog(100, FakeClock())
    for number in range(50):
        assert log.add(f"line {number}\n".encode())
    kept = log.text.splitlines()
    assert kept[0] == "…"
    assert kept[1:] == [f"line {number}" for number in range(50 - len(kept) + 1, 50)]
    assert len(kept) > 5


def test_what_fits_is_there_from_its_beginning():
    log = JailLog(100, FakeClock())
    log.add(b"one\n")
    log.note("Two.")
    assert log.text == "one\n[kagura] Two.\n"


def test_bytes_that_are_no_text_are_shown_as_such():
    log = JailLog(100, FakeClock())
    log.add(b"\xff\n")
    assert log.text == "�\n"


async def test_a_flood_is_more_than_a_log_can_take_and_steady_chatter_is_not():
    clock = FakeClock()
    log = JailLog(100, clock)
    assert log.add(b"x" * BURST)
    assert not log.add(b"x")
    for _ in range(100):
        await clock.advance(1)
        assert log.add(b"x" * (RATE - 1000))
