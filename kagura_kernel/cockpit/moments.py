"""The moment behind an age or a time that a person writes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kagura_kernel.domain.errors import UsageError

_AGO = re.compile(r"(?P<count>\d{1,6})(?P<unit>[smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_time(text: str, now: datetime, option: str = "--since") -> datetime:
    """The moment behind an age or an ISO time; one without a zone is this machine's.

    Raises:
        UsageError: it is neither.
    """
    try:
        if ago := _AGO.fullmatch(text):
            return now - timedelta(**{_UNITS[ago["unit"]]: int(ago["count"])})
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        example = "15m, 2h, 7d, or 2026-01-31T12:00"
        raise UsageError(f"{option} takes an age or a time in ISO 8601, as in {example}.") from None
