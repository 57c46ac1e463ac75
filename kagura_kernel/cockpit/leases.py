"""The leases of all runs that go on, in this process or another: as the journal tells them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from kagura_kernel.domain.events import Event, LeaseChanged

LeaseState = Literal["live", "held up", "on hold", "released"]

_STATES: dict[str, LeaseState] = {
    "acquired": "live",
    "renewed": "live",
    "extended": "live",
    "held up": "held up",
    "on hold": "on hold",
    "released": "released",
}


@dataclass(frozen=True, slots=True)
class LeaseView:
    """One lease, as a person sees it.

    Attributes:
        lease_id: `lea-…`.
        run_id: The run that holds it.
        session_id: That run's session.
        provider: Name of the provider.
        scope: What it is good for.
        state: `live`; `held up` while a person is asked for more; `on hold` when it gives nothing out; `released`.
        expires_at: When its present credential ends, UTC; None when there is none.
        budget_left: Seconds of its budget beyond the present credential.
        renewals_left: How often it may still be renewed.
        way: How programs use it: `header`, `file` or `env`; empty while that is not known.
        place: Where they find it; never a secret.
        why: More about its state, one clause.
        here: Whether a run of this process holds it, so that this process can revoke and extend it.
    """

    lease_id: str
    run_id: str
    session_id: str
    provider: str
    scope: str
    state: LeaseState
    expires_at: datetime | None = None
    budget_left: float = 0.0
    renewals_left: int = 0
    way: str = ""
    place: str = ""
    why: str = ""
    here: bool = False


def lease_views(events: Iterable[Event], *, here: Collection[str] = ()) -> list[LeaseView]:
    """What these events say about leases, in the order in which they were acquired; those given back are left out.

    Args:
        events: In their order; those that are not about leases are passed over.
        here: Runs of this process.
    """
    found: dict[str, LeaseView] = {}
    for event in events:
        if isinstance(event, LeaseChanged):
            found[event.lease_id] = _view(event, found.get(event.lease_id), here=event.run_id in here)
    return [view for view in found.values() if view.state != "released"]


def _view(event: LeaseChanged, before: LeaseView | None, *, here: bool) -> LeaseView:
    # How it is used does not change, and is not said again while nothing is in the box.
    way, place = (event.way, event.place) if event.way or before is None else (before.way, before.place)
    return LeaseView(
        lease_id=event.lease_id,
        run_id=event.run_id,
        session_id=event.session_id,
        provider=event.provider,
        scope=event.scope,
        state=_STATES[event.change],
        expires_at=event.expires_at,
        budget_left=event.seconds_left,
        renewals_left=event.renewals_left,
        way=way,
        place=place,
        why=event.why,
        here=here,
    )
