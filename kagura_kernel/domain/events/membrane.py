"""What crosses the wall of a box: the grant, connections, leases."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from kagura_kernel.domain.events.base import Event
from kagura_kernel.domain.identity import Exact


class MountRow(BaseModel):
    """One folder of the host that a box sees."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    # On the host; `its kit` for the kit, whose contents `kit.staged` tells; `its brain’s program` likewise
    source: Exact
    target: Exact  # In the box
    mode: Literal["copy", "read"] = "copy"  # `copy` is a copy-on-write view, `read` cannot be written


class RunGranted(Event):
    """What a run is given, computed before anything starts."""

    kind: Literal["run.granted"] = "run.granted"
    image: Exact = ""  # Image asked for; empty is the back-end's own choice
    mounts: tuple[MountRow, ...] = ()  # What of the host it sees
    credentials: tuple[Exact, ...] = ()  # What it may lease, each as `provider:scope`
    egress: tuple[Exact, ...] = ()  # The words that open hosts, as they were written
    ask: bool = False  # Whether an unknown host is a question to a person
    writable_root: bool = False  # Whether it may change its whole system
    beyond: tuple[str, ...] = ()  # What of it exceeds the baseline, a clause each; empty for an ordinary run
    by: str = ""  # Who allowed what needs allowing: a person, or `settings`; empty when nothing did


EgressEnd = Literal["done", "limit", "idle", "time", "unreachable", "reset", "cancelled"]
"""How a connection ended: both sides were done, or what cut it."""


class EgressDecided(Event):
    """A program in a box asked for a connection, and this was the answer. Recorded before the first byte."""

    kind: Literal["egress.decided"] = "egress.decided"
    connection_id: Exact  # Unique in the run; the `EgressClosed` of the same connection bears it too
    host: Exact  # Normalised name or address; as it was asked for, escaped, if it could not be understood
    port: int  # TCP port
    allowed: bool  # Whether the connection may be made
    rule: Exact = ""  # What spoke: the grant as it was written, `asked`, or empty when nothing granted it
    reason: str = ""  # One sentence for a person
    addresses: tuple[Exact, ...] = ()  # What may be dialled, in order; empty when refused
    refused_addresses: tuple[Exact, ...] = ()  # What the name also resolved to and was refused, each as `address: why`
    # Of a refusal: how often it was given in this run; repeated ones are recorded at 1, 2, 4, 8 … Of what is allowed:
    # how many connections at most this row stands for; 1 but for a target that is asked for very often
    times: int = 1
    plugin: Exact = ""  # The plugin whose jail asked; empty for the run's own box


class EgressClosed(Event):
    """A connection that was allowed is over, or the last of those that one `EgressDecided` stands for.

    Every allowed `EgressDecided` is followed by one.
    """

    kind: Literal["egress.closed"] = "egress.closed"
    connection_id: Exact  # The one of its `EgressDecided`
    host: Exact  # Normalised name or address
    port: int  # TCP port
    address: Exact = ""  # What was dialled, of several connections the last; empty when nothing answered
    bytes_out: int = 0  # Bytes that left the box, all of its connections together
    bytes_in: int = 0  # Bytes that came for it, all of its connections together
    duration: float = 0.0  # Seconds from the question to the end, summed over its connections
    # `done` when both sides were, otherwise what cut it; of several connections the most frequent end
    ended: EgressEnd = "done"
    detail: str = ""  # More about an end that is not `done`, or about several connections; a sentence or two
    times: int = 1  # How many connections it is the end of
    plugin: Exact = ""  # The plugin whose jail asked; empty for the run's own box


LeaseChange = Literal["acquired", "renewed", "extended", "held up", "on hold", "released"]
"""What happens to a lease: a first credential; a fresh one; a person gave it more time; a person is asked, for its
budget is used up; nothing is given out until they say yes; its end."""


class ModelCalled(Event):
    """A brain that thinks in its box asked its service, or several times alike; the membrane added the key.

    What answers cost stands in `turn.counted`. Requests that were refused here stand here too.
    """

    kind: Literal["model.called"] = "model.called"
    method: Exact = ""  # HTTP method
    host: Exact = ""  # The service, with its port
    path: Exact = ""  # Without its query; of several requests the last
    status: int = 0  # What the program was answered; 0 when nothing came
    bytes_out: int = 0  # Of the request's body, of all requests together
    bytes_in: int = 0  # Of the answer's body, of all requests together
    duration: float = 0.0  # Seconds, summed over its requests
    why: str = ""  # Why it was refused or broke off; of several requests the last
    times: int = 1  # How many requests this row stands for


class LeaseChanged(Event):
    """A lease of the run began, was renewed, is in trouble, or ended."""

    kind: Literal["lease.changed"] = "lease.changed"
    lease_id: Exact  # `lea-…`; the same through all renewals
    provider: Exact  # Name of the provider
    scope: Exact  # What it is good for
    change: LeaseChange  # What happened
    expires_at: datetime | None = None  # When its present credential ends, aware, UTC; None when there is none any more
    seconds_left: float = 0.0  # What is left of its budget, seconds, without the present credential's
    renewals_left: int = 0  # How often it may still be renewed
    way: Exact = ""  # How programs use it: `header`, `file` or `env`
    place: Exact = ""  # Where they find it: a URL in the box, a path, names of variables; never a secret
    why: str = ""  # More about trouble and ends, one clause


class LeaseUsed(Event):
    """A request of the box to which the membrane added a credential, or several of one sort.

    The first requests of a lease have a row each. Later ones, and refused ones, are summed up by method and status.
    """

    kind: Literal["lease.used"] = "lease.used"
    lease_id: Exact
    provider: Exact  # Name of the provider
    scope: Exact  # What it is good for
    method: Exact = ""  # HTTP method
    host: Exact = ""  # The upstream, with its port
    path: str = ""  # Without its query, which may hold anything; of several requests the last
    status: int = 0  # What the upstream answered; 0 when nothing came, or it was refused here
    bytes_out: int = 0  # Of the request's body, of all requests together
    bytes_in: int = 0  # Of the answer's body, of all requests together
    duration: float = 0.0  # Seconds, summed over its requests
    why: str = ""  # Why it was refused or broke off, one clause; of several requests the last
    times: int = 1  # How many requests this row stands for
