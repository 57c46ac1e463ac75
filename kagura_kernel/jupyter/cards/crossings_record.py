"""The part of a run's record that tells what it was given and what crossed its wall.

As in the rest of the record: what the same run would say again, and apart from it what differs every time.
"""

from __future__ import annotations

from typing import Any

from kagura_kernel.jupyter.cards.network import by_name
from kagura_kernel.jupyter.cards.view import RunView


def crossings_record(view: RunView) -> dict[str, Any]:
    """`grant`, `egress` and `leases`; each empty when there was nothing beyond an ordinary run."""
    granted = view.granted
    grant: dict[str, Any] = {}
    if granted is not None and granted.beyond:
        grant = {"egress": list(granted.egress), "credentials": list(granted.credentials), "image": granted.image}
        grant |= {"ask": granted.ask, "writable_root": granted.writable_root}
        grant["mounts"] = [{"target": mount.target, "mode": mount.mode} for mount in granted.mounts]
    refused = [
        {"host": one.host, "port": one.port, "why": one.short, "net": one.net} for one in by_name(view.network.denied)
    ]
    unreached = [{"host": one.host, "port": one.port, "why": one.short} for one in by_name(view.network.unreached)]
    reached = [{"host": one.host, "port": one.port, "rule": one.rule} for one in by_name(view.network.stood)]
    leases = [
        {"provider": held.said.provider, "scope": held.said.scope, "way": held.said.way, "end": held.end}
        | {"given_back": held.end in {"given back", "revoked"}}
        for held in view.leases.values()
    ]
    egress: dict[str, Any] = {"refused": refused, "reached": reached} if view.network else {}
    egress |= {"not_reached": unreached} if unreached else {}
    return {"grant": grant, "egress": egress, "leases": leases}


def crossings_metadata(view: RunView) -> dict[str, Any]:
    """Figures, times, ids, paths and people."""
    granted = view.granted
    grant: dict[str, Any] = {}
    if granted is not None and granted.beyond:
        grant = {"beyond": list(granted.beyond), "by": granted.by, "at": granted.at.isoformat()}
        grant["sources"] = [mount.source for mount in granted.mounts]
    refused = [{"place": one.place, "times": one.times, "reason": one.reason} for one in by_name(view.network.denied)]
    unreached = [
        {"place": one.place, "times": one.times, "reason": one.reason} for one in by_name(view.network.unreached)
    ]
    reached = [
        {
            "place": one.place,
            "connections": one.connections,
            "bytes_in": one.bytes_in,
            "bytes_out": one.bytes_out,
            "seconds": round(one.seconds, 3),
            "ended": dict(one.ended),
        }
        for one in by_name(view.network.stood)
    ]
    more = {"refusals": view.network.more_refused, "connections": view.network.more_reached}
    egress: dict[str, Any] = {"refused": refused, "reached": reached, "not_told_apart": more} if view.network else {}
    egress |= {"not_reached": unreached} if unreached else {}
    leases = [
        {
            "lease_id": lease_id,
            "place": held.said.place,
            "since": held.since.isoformat(),
            "held": round(held.seconds, 3),
            "renewals": held.renewals,
            "requests": held.requests,
            "why": held.said.why,
        }
        for lease_id, held in view.leases.items()
    ]
    return {"grant": grant, "egress": egress, "leases": leases}
