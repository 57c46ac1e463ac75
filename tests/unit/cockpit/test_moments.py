from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.domain.clock import read_time
from kagura_kernel.domain.errors import UsageError

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800)])
def test_an_age_is_counted_back_from_now(text, seconds):
    assert read_time(text, NOW) == NOW - timedelta(seconds=seconds)


def test_a_time_stands_for_itself():
    assert read_time("2026-01-01T12:00:00+00:00", NOW) == NOW - timedelta(hours=12)


@pytest.mark.parametrize("text", ["999999d", "yesterday", "5", "-1h", "1w", "", "0001-01-01T00:00:00+14:00"])
def test_what_is_no_time_or_lies_before_all_time_is_wrong_usage(text):
    with pytest.raises(UsageError, match="--since takes an age or a time"):
        read_time(text, NOW)
