from __future__ import annotations

from datetime import UTC, datetime

from kagura_kernel.cockpit.records import lease_views
from kagura_kernel.domain.events import LeaseChanged, Noted

AT = datetime(2026, 1, 1, tzinfo=UTC)


def changed(change: str, lease: str = "lea-1", run: str = "run-1", **fields: object) -> LeaseChanged:
    return LeaseChanged(
        run_id=run,
        session_id="ses-1",
        at=AT,
        lease_id=lease,
        provider="github",
        scope="read",
        change=change,  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


def test_the_last_word_on_a_lease_counts_and_its_place_is_kept():
    events = [
        changed("acquired", way="header", place="http://127.0.0.1:9/", renewals_left=6, expires_at=AT),
        Noted(run_id="run-1", session_id="ses-1", at=AT, text="something else"),
        changed("renewed", way="header", place="http://127.0.0.1:9/", renewals_left=5, expires_at=AT),
        changed("on hold", why="its budget is used up"),
    ]
    (view,) = lease_views(events)
    assert (view.state, view.renewals_left, view.expires_at) == ("on hold", 0, None)
    assert (view.way, view.place, view.why) == ("header", "http://127.0.0.1:9/", "its budget is used up")


def test_what_was_given_back_is_left_out():
    assert lease_views([changed("acquired"), changed("released", why="revoked by ann")]) == []


def test_only_leases_of_this_process_can_be_acted_on_here():
    views = lease_views([changed("acquired"), changed("acquired", "lea-2", "run-2")], here={"run-2"})
    assert [(view.lease_id, view.here) for view in views] == [("lea-1", False), ("lea-2", True)]
