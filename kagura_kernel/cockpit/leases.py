"""The leases of all runs that go on, in this process or another, and whose they are."""

from __future__ import annotations

from kagura_kernel.journal.lease_views import LeaseState, LeaseView, lease_views, take_back
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow

__all__ = ["LeaseState", "LeaseView", "held_elsewhere", "lease_views", "take_back", "where_held"]


def held_elsewhere(ledger: LeaseLedger, lease_id: str) -> LeaseRow | None:
    """The ledger's row of a lease that a run of another process holds; None when nobody does.

    Raises:
        JournalUnreadable: the ledger cannot be read.
    """
    return next((row for row in ledger.open_rows() if row.lease_id == lease_id and row.state != "owed"), None)


def where_held(owner: str) -> str:
    """Which kernel holds it, from `host:pid:start`, in brackets; empty where that is not known."""
    host, _, rest = owner.partition(":")
    process = rest.partition(":")[0]
    return f" (process {process} on {host})" if process else ""
