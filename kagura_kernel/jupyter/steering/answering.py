"""Commands that answer and stop: approvals, runs that go on, leases."""

from __future__ import annotations

from kagura_kernel.cockpit.naming import named_approval, only, run_to_stop, told_run
from kagura_kernel.jupyter.steering.asked import Asked, say
from kagura_kernel.jupyter.surface import person


def approve(asked: Asked) -> None:
    """Allow what an approval asks for."""
    _decide(asked, allow=True)


def deny(asked: Asked) -> None:
    """Say no to it."""
    _decide(asked, allow=False)


def _decide(asked: Asked, *, allow: bool) -> None:
    approval_id = named_approval(asked.cockpit.journal, asked["approval"], asked.here)
    answer = " ".join(asked["answer"])
    decision = asked.cockpit.decide(approval_id, allow=allow, by=person(), via="command", answer=answer)
    say(f"{decision.approval_id}: {'allowed' if decision.allowed else 'denied'}.")


def kill(asked: Asked) -> None:
    """Stop runs; none is stopped when one of the names fits nothing."""
    cockpit = asked.cockpit
    for run_id in dict.fromkeys([run_to_stop(cockpit.journal, word, asked.here) for word in asked["run"]]):
        cockpit.kill(run_id, by=person())
        say(f"{told_run(cockpit.journal, run_id)} is being stopped.")


def revoke(asked: Asked) -> None:
    """Give a lease back."""
    lease_id = _lease_id(asked, asked["lease"])
    asked.cockpit.revoke_lease(lease_id, by=person())
    say(f"{lease_id} is being given back.")


def extend(asked: Asked) -> None:
    """Ask for more time for a lease."""
    lease_id = _lease_id(asked, asked["lease"])
    asked.cockpit.extend_lease(lease_id, by=person())
    say(f"The run of {lease_id} asks for more time: answer in its card.")


def _lease_id(asked: Asked, target: str) -> str:
    """A lease's id: as given, or the one that ends like this, or the one of this `provider:scope`."""
    if target.startswith("lea-"):
        return target
    rows = asked.cockpit.leases()
    found = [row.lease_id for row in rows if row.lease_id.endswith(target) or f"{row.provider}:{row.scope}" == target]
    # One that nobody holds is the cockpit's to refuse.
    return only(target, found, "leases", "%kagura leases") if found else target
