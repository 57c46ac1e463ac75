from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.membrane.credentials.lease import Budget

SECONDS = st.floats(0, 1e6)


def test_by_default_it_is_an_hour_and_six_renewals() -> None:
    assert Budget() == Budget(total_seconds=3600, spent_seconds=0, renewals_left=6)
    assert Budget().remaining_seconds == 3600
    assert not Budget().exhausted


def test_the_first_credential_is_capped_by_what_is_left() -> None:
    assert Budget(3600).first(900) == 900
    assert Budget(3600, 3500).first(900) == 100


def test_a_renewal_spends_only_the_time_that_it_adds() -> None:
    budget = Budget(3600, 900)
    assert budget.extension(900, held_for=225) == 675
    assert budget.renew(675) == Budget(3600, 1575, 5)
    assert Budget(1000, 900).extension(900, held_for=225) == 100
    assert budget.extension(900, held_for=-50) == 900
    assert budget.extension(900, held_for=1000) == 0


def test_it_is_never_overdrawn() -> None:
    with pytest.raises(ValueError, match="cannot be spent"):
        Budget(100).spend(101)
    with pytest.raises(ValueError, match="cannot be spent"):
        Budget(100).spend(-1)
    with pytest.raises(ValueError, match="no renewal"):
        Budget(100, renewals_left=0).renew(1)


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (1, -1, 0), (1, 0, -1), (float("nan"), 0, 0), (float("inf"), 0, 0)])
def test_nonsense_is_no_budget(numbers: tuple[float, float, int]) -> None:
    with pytest.raises(ValueError, match="budget"):
        Budget(*numbers)


def test_exhausted_and_renewable() -> None:
    assert Budget(100, 100).exhausted
    assert not Budget(100, 100).renewable
    assert not Budget(100, 0, 0).renewable
    assert Budget(100, 99, 1).renewable


def test_more_adds_to_what_is_left() -> None:
    assert Budget(100, 100, 0).extend(Budget(3600, 0, 6)) == Budget(3700, 100, 6)
    assert Budget(100, 40, 1).extend(Budget(50, 20, 2)) == Budget(130, 40, 3)


@given(SECONDS, st.lists(st.tuples(SECONDS, SECONDS), max_size=20))
def test_whatever_happens_no_more_is_held_than_was_approved(total: float, renewals: list[tuple[float, float]]) -> None:
    """Renewing at any moment of a lease's life never makes the held time longer than the total."""
    budget = Budget(total, renewals_left=100)
    first = budget.first(900)
    budget = budget.spend(first)
    now, ends = 0.0, first
    for wait, ttl in renewals:
        now = min(ends, now + wait)
        if not budget.renewable:
            break
        added = budget.extension(ttl, ends - now)
        budget = budget.renew(added)
        ends = max(ends, now) + added
    assert ends <= total + 1e-3
    assert budget.spent_seconds <= budget.total_seconds
