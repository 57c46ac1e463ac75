"""Refusals are on record, none hides another, and nobody fills the journal with them."""

from __future__ import annotations

from kagura_kernel.cockpit.transports.conversations import (
    EACH_UNTIL,
    MOST_ROWS,
    MOST_ROWS_OF_ONE,
    WINDOW_SECONDS,
    Counted,
    Refusals,
)
from kagura_kernel.testing.clock import FakeClock

STRANGER = "whoever sent it is no operator"


def test_what_somebody_says_hides_no_click_of_theirs():
    refusals = Refusals(FakeClock())
    talk = [refusals.count("eve", STRANGER, "", decides=False) for _ in range(3)]
    assert talk == [Counted(1, 0), Counted(2, 0), None]
    assert refusals.count("eve", STRANGER, "app-1", decides=True) == Counted(1, 1)


def test_clicks_are_told_one_by_one_and_when_there_are_too_many_at_each_doubling():
    refusals = Refusals(FakeClock())
    told = [refusals.count("eve", STRANGER, "app-1", decides=True) for _ in range(2 * EACH_UNTIL)]
    assert [one.times for one in told if one is not None] == [*range(1, EACH_UNTIL + 1), 2 * EACH_UNTIL]
    assert told[-1] == Counted(2 * EACH_UNTIL, EACH_UNTIL - 1)


def test_hundreds_of_strangers_have_so_many_rows_an_hour_and_leave_clicks_their_place():
    refusals = Refusals(FakeClock())
    told = [refusals.count(f"eve-{number}", STRANGER, "", decides=False) for number in range(400)]
    assert len([one for one in told if one is not None]) == MOST_ROWS
    assert refusals.count("eve-399", STRANGER, "app-1", decides=True) == Counted(1, 400 - MOST_ROWS)


def test_one_who_makes_up_what_it_is_about_leaves_others_their_place():
    refusals = Refusals(FakeClock())
    told = [refusals.count("eve", STRANGER, f"app-{number}", decides=True) for number in range(400)]
    assert len([one for one in told if one is not None]) == MOST_ROWS_OF_ONE
    assert refusals.count("mallory", STRANGER, "app-1", decides=True) == Counted(1, 400 - MOST_ROWS_OF_ONE)


async def test_there_is_a_place_again_after_an_hour():
    clock = FakeClock()
    refusals = Refusals(clock)
    for number in range(MOST_ROWS + 1):
        refusals.count(f"eve-{number}", STRANGER, "", decides=False)
    await clock.advance(WINDOW_SECONDS - 1)
    assert refusals.count("mallory", STRANGER, "", decides=False) is None
    await clock.advance(1)
    assert refusals.count("bob", STRANGER, "", decides=False) == Counted(1, 2)


def test_no_more_figures_are_kept_than_there_is_room_for():
    refusals = Refusals(FakeClock())
    for number in range(5000):
        refusals.count(f"eve-{number}", STRANGER, "", decides=False)
    assert len(refusals._times) <= 1000
    assert len(refusals._rows) <= 2 * MOST_ROWS + 2
