from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.journal.leases import LeaseRow
from kagura_kernel.membrane.credentials.provider import Verdict
from kagura_kernel.membrane.credentials.revoke import LONGEST_PAUSE, judge, pause, surely_arrived, surely_dead

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = LeaseRow("lea-1", "lea-1", "run-1", "ses-1", "o", "p", "s", NOW, NOW, NOW + timedelta(hours=1), 1, 1, 0)


@pytest.mark.parametrize("status", [404, 410])
def test_what_the_provider_does_not_know_is_forgotten(status: int) -> None:
    assert judge(status).verdict is Verdict.GONE


@pytest.mark.parametrize("status", [200, 202, 204])
def test_a_success_is_one(status: int) -> None:
    assert judge(status).verdict is Verdict.REVOKED


@pytest.mark.parametrize("status", [301, 400, 401, 403, 405, 409, 418, 422, 429, 500, 502, 503, 504])
def test_everything_else_may_pass_and_is_tried_again(status: int) -> None:
    answer = judge(status, retry_after=3.0)
    assert (answer.verdict, answer.why, answer.retry_after) == (Verdict.RETRY, f"HTTP {status}", 3.0)


def test_pauses_grow_up_to_a_limit_and_are_spread() -> None:
    assert [pause(number, 0.5) for number in (1, 2, 3, 4)] == [2, 4, 8, 16]
    assert pause(1000, 0.5) == LONGEST_PAUSE
    assert pause(1, 0.0) < pause(1, 1.0)


def test_a_provider_is_never_asked_earlier_than_it_wants() -> None:
    assert pause(1, 0.5, retry_after=100.0) == 100
    assert pause(9, 0.5, retry_after=1.0) == LONGEST_PAUSE
    assert pause(1, 0.5, retry_after=1e9) == 3600


def test_a_credential_is_dead_only_well_after_its_time() -> None:
    assert not surely_dead(ROW, NOW + timedelta(hours=1, minutes=4))
    assert surely_dead(ROW, NOW + timedelta(hours=1, minutes=6))


def test_a_mint_has_arrived_after_two_minutes() -> None:
    assert not surely_arrived(ROW, NOW + timedelta(seconds=119))
    assert surely_arrived(ROW, NOW + timedelta(seconds=121))
