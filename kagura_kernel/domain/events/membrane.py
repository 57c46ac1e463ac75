"""What crosses the wall of a box: the grant, connections, leases."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from kagura_kernel.domain.events.base import Event


class MountRow(BaseModel):
    """One folder of the host that a box sees.

    Attributes:
        source: On the host; `its kit` for the kit, whose contents `kit.staged` tells; `its brain’s program` likewise.
        target: In the box.
        mode: `copy` is a copy-on-write view, `read` cannot be written.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    source: str
    target: str
    mode: Literal["copy", "read"] = "copy"


class RunGranted(Event):
    """What a run is given, computed before anything starts.

    Attributes:
        image: Image asked for; empty is the back-end's own choice.
        mounts: What of the host it sees.
        credentials: What it may lease, each as `provider:scope`.
        egress: The words that open hosts, as they were written.
        ask: Whether an unknown host is a question to a person.
        writable_root: Whether it may change its whole system.
        beyond: What of it exceeds the baseline, a clause each; empty for an ordinary run.
        by: Who allowed what needs allowing: a person, or `settings`; empty when nothing did.
    """

    kind: Literal["run.granted"] = "run.granted"
    image: str = ""
    mounts: tuple[MountRow, ...] = ()
    credentials: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()
    ask: bool = False
    writable_root: bool = False
    beyond: tuple[str, ...] = ()
    by: str = ""


EgressEnd = Literal["done", "limit", "idle", "time", "unreachable", "reset", "cancelled"]
"""How a connection ended: both sides were done, or what cut it."""


class EgressDecided(Event):
    """A program in a box asked for a connection, and this was the answer. Recorded before the first byte.

    Attributes:
        connection_id: Unique in the run; the `EgressClosed` of the same connection bears it too.
        host: Normalised name or address; as it was asked for, escaped, if it could not be understood.
        port: TCP port.
        allowed: Whether the connection may be made.
        rule: What spoke: the grant as it was written, `asked`, or empty when nothing granted it.
        reason: One sentence for a person.
        addresses: What may be dialled, in order; empty when refused.
        refused_addresses: What the name also resolved to and was refused, each as `address: why`.
        times: Of a refusal: how often it was given in this run; repeated ones are recorded at 1, 2, 4, 8 … Of what is
            allowed: how many connections at most this row stands for; 1 but for a target that is asked for very often.
        plugin: The plugin whose jail asked; empty for the run's own box.
    """

    kind: Literal["egress.decided"] = "egress.decided"
    connection_id: str
    host: str
    port: int
    allowed: bool
    rule: str = ""
    reason: str = ""
    addresses: tuple[str, ...] = ()
    refused_addresses: tuple[str, ...] = ()
    times: int = 1
    plugin: str = ""


class EgressClosed(Event):
    """A connection that was allowed is over, or the last of those that one `EgressDecided` stands for.

    Every allowed `EgressDecided` is followed by one.

    Attributes:
        connection_id: The one of its `EgressDecided`.
        host: Normalised name or address.
        port: TCP port.
        address: What was dialled, of several connections the last; empty when nothing answered.
        bytes_out: Bytes that left the box, all of its connections together.
        bytes_in: Bytes that came for it, all of its connections together.
        duration: Seconds from the question to the end, summed over its connections.
        ended: `done` when both sides were, otherwise what cut it; of several connections the most frequent end.
        detail: More about an end that is not `done`, or about several connections; a sentence or two.
        times: How many connections it is the end of.
        plugin: The plugin whose jail asked; empty for the run's own box.
    """

    kind: Literal["egress.closed"] = "egress.closed"
    connection_id: str
    host: str
    port: int
    address: str = ""
    bytes_out: int = 0
    bytes_in: int = 0
    duration: float = 0.0
    ended: EgressEnd = "done"
    detail: str = ""
    times: int = 1
    plugin: str = ""


LeaseChange = Literal["acquired", "renewed", "extended", "held up", "on hold", "released"]
"""What happens to a lease: a first credential; a fresh one; a person gave it more time; a person is asked, for its
budget is used up; nothing is given out until they say yes; its end."""


class ModelCalled(Event):
    """A brain that thinks in its box asked its service, or several times alike; the membrane added the key.

    What answers cost stands in `turn.counted`. Requests that were refused here stand here too.

    Attributes:
        method: HTTP method.
        host: The service, with its port.
        path: Without its query; of several requests the last.
        status: What the program was answered; 0 when nothing came.
        bytes_out: Of the request's body, of all requests together.
        bytes_in: Of the answer's body, of all requests together.
        duration: Seconds, summed over its requests.
        why: Why it was refused or broke off; of several requests the last.
        times: How many requests this row stands for.
    """

    kind: Literal["model.called"] = "model.called"
    method: str = ""
    host: str = ""
    path: str = ""
    status: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    duration: float = 0.0
    why: str = ""
    times: int = 1


class LeaseChanged(Event):
    """A lease of the run began, was renewed, is in trouble, or ended.

    Attributes:
        lease_id: `lea-…`; the same through all renewals.
        provider: Name of the provider.
        scope: What it is good for.
        change: What happened.
        expires_at: When its present credential ends, aware, UTC; None when there is none any more.
        seconds_left: What is left of its budget, seconds, without the present credential's.
        renewals_left: How often it may still be renewed.
        way: How programs use it: `header`, `file` or `env`.
        place: Where they find it: a URL in the box, a path, names of variables; never a secret.
        why: More about trouble and ends, one clause.
    """

    kind: Literal["lease.changed"] = "lease.changed"
    lease_id: str
    provider: str
    scope: str
    change: LeaseChange
    expires_at: datetime | None = None
    seconds_left: float = 0.0
    renewals_left: int = 0
    way: str = ""
    place: str = ""
    why: str = ""


class LeaseUsed(Event):
    """A request of the box to which the membrane added a credential, or several of one sort.

    The first requests of a lease have a row each. Later ones, and refused ones, are summed up by method and status.

    Attributes:
        lease_id: The lease.
        provider: Name of the provider.
        scope: What it is good for.
        method: HTTP method.
        host: The upstream, with its port.
        path: Without its query, which may hold anything; of several requests the last.
        status: What the upstream answered; 0 when nothing came, or it was refused here.
        bytes_out: Of the request's body, of all requests together.
        bytes_in: Of the answer's body, of all requests together.
        duration: Seconds, summed over its requests.
        why: Why it was refused or broke off, one clause; of several requests the last.
        times: How many requests this row stands for.
    """

    kind: Literal["lease.used"] = "lease.used"
    lease_id: str
    provider: str
    scope: str
    method: str = ""
    host: str = ""
    path: str = ""
    status: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    duration: float = 0.0
    why: str = ""
    times: int = 1
