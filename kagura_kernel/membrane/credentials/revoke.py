"""What an answer to a revocation means, and when to try again. Decides, does nothing.

A credential that the provider does not know any more is forgotten. Everything else that is not a success (a wrong key,
a limit, an outage, an answer that makes no sense) may pass, so the credential is kept and tried again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kagura_kernel.journal.leases import LeaseRow
from kagura_kernel.membrane.credentials.provider import Revocation, Verdict

FIRST_PAUSE = 2.0
LONGEST_PAUSE = 300.0
SKEW = timedelta(minutes=5)
"""How wrong our clock may be before a credential that should have died is taken to be dead."""
LATE_ARRIVAL = timedelta(minutes=2)
"""How long a request that was on its way when its process died may still make a credential."""

_GONE = frozenset({404, 410})


def judge(status: int, *, retry_after: float | None = None) -> Revocation:
    """What an HTTP status in answer to a revocation means."""
    if 200 <= status < 300:  # noqa: PLR2004 - what HTTP calls success
        return Revocation(Verdict.REVOKED)
    if status in _GONE:
        return Revocation(Verdict.GONE)
    return Revocation(Verdict.RETRY, f"HTTP {status}", retry_after)


def pause(attempts: int, chance: float, retry_after: float | None = None) -> float:
    """Seconds until the next attempt, after so many failed ones.

    Args:
        attempts: How many failed, this one included.
        chance: From 0 to 1; spreads those who would otherwise all come back at once.
        retry_after: What the provider asked for; it is never undercut, except where it asks for more than an hour.
    """
    doubled = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempts - 1, 16))
    spread = doubled * (0.75 + 0.5 * chance)
    return max(spread, min(retry_after or 0.0, 3600.0))


def surely_dead(row: LeaseRow, now: datetime) -> bool:
    """Whether the provider itself has ended it by now, even by a clock that is somewhat wrong."""
    return now > row.dies_at + SKEW


def surely_arrived(row: LeaseRow, now: datetime) -> bool:
    """Whether a mint that began then has happened by now if it ever will."""
    return now > row.began_at + LATE_ARRIVAL
