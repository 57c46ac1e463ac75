"""Words for a connection that leaves a box: what was decided, what it carried, and why it was refused.

Plain values without I/O. Both facts carry the fields that every event has (`kind`, `run_id`, `session_id`, `at`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from kagura_kernel.domain.errors import KaguraError, UsageError

EgressEnd = Literal["done", "limit", "idle", "time", "unreachable", "reset", "cancelled"]
"""How a connection ended: both sides were done, or what cut it."""


@dataclass(frozen=True, slots=True)
class EgressDecided:
    """A program in a box asked for a connection, and this was the answer. Recorded before the first byte.

    Attributes:
        run_id: The run whose box asked.
        session_id: That run's session.
        at: When, aware, UTC.
        connection_id: Unique in the run; the `EgressClosed` of the same connection bears it too.
        host: Normalised name or address; as it was asked for, escaped, if it could not be understood.
        port: TCP port.
        allowed: Whether the connection may be made.
        rule: What spoke: the grant as it was written, `asked`, or empty when nothing granted it.
        reason: One sentence for a person.
        addresses: What may be dialled, in order; empty when refused.
        refused_addresses: What the name also resolved to and was refused, each as `address: why`.
        times: How often this very refusal was given in this run; repeated ones are recorded at 1, 2, 4, 8 …
    """

    run_id: str
    session_id: str
    at: datetime
    connection_id: str
    host: str
    port: int
    allowed: bool
    rule: str = ""
    reason: str = ""
    addresses: tuple[str, ...] = ()
    refused_addresses: tuple[str, ...] = ()
    times: int = 1
    kind: Literal["egress.decided"] = "egress.decided"


@dataclass(frozen=True, slots=True)
class EgressClosed:
    """A connection that was allowed is over. Every allowed `EgressDecided` is followed by one.

    Attributes:
        run_id: The run whose box asked.
        session_id: That run's session.
        at: When it ended, aware, UTC.
        connection_id: The one of its `EgressDecided`.
        host: Normalised name or address.
        port: TCP port.
        address: What was dialled; empty when nothing answered.
        bytes_out: Bytes that left the box.
        bytes_in: Bytes that came for it.
        duration: Seconds from the question to the end.
        ended: `done` when both sides were, otherwise what cut it.
        detail: More about an end that is not `done`, one sentence.
    """

    run_id: str
    session_id: str
    at: datetime
    connection_id: str
    host: str
    port: int
    address: str = ""
    bytes_out: int = 0
    bytes_in: int = 0
    duration: float = 0.0
    ended: EgressEnd = "done"
    detail: str = ""
    kind: Literal["egress.closed"] = "egress.closed"


class HostNotUnderstood(UsageError):
    """A host, port or URL is not one that could ever be reached; nothing was looked up."""

    code = "ERR_EGRESS_HOST"

    def __init__(self, text: str, why: str) -> None:
        # What a box sends may hold anything; a message is one printable line.
        shown = ascii(text if len(text) <= 80 else text[:79] + "~")  # noqa: PLR2004 - a line of a message
        super().__init__(f"{shown} is no host that can be reached: {why}.")
        self.text = text
        self.why = why


class EgressRefused(KaguraError):
    """A connection out of a box was not made. `status` is what an HTTP proxy answers."""

    code = "ERR_EGRESS"
    status = 502

    def __init__(self, host: str, port: int, why: str, advice: str = "") -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        super().__init__(f"{place} {why}." + (f" {advice}" if advice else ""))
        self.host = host
        self.port = port
        self.why = why


class EgressDenied(EgressRefused):
    """It is not granted, a person said no, or it leads to an address that no box may reach."""

    code = "ERR_EGRESS_DENIED"
    status = 403


class EgressUnreachable(EgressRefused):
    """It was granted, and could not be resolved or did not answer."""

    code = "ERR_EGRESS_UNREACHABLE"
    status = 502


class EgressBusy(EgressRefused):
    """The box has more connections open than it may have at once."""

    code = "ERR_EGRESS_BUSY"
    status = 503
