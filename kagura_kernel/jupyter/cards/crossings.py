"""What crossed the wall of a run's box so far, folded from its events: connections and leases."""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from kagura_kernel.domain.events import EgressClosed, EgressDecided, LeaseChanged, LeaseUsed
from kagura_kernel.domain.hosts import place

KEPT_PLACES = 500
"""Places that a view tells apart, refused ones and reached ones each; what comes after them is only counted."""

LeaseEnd = Literal["given back", "revoked", "left to expire"]
"""How a lease ended: with its run; by a person's word before that; or not at its provider, which cannot end it."""

KEPT_REQUESTS = 20
"""Requests of one lease that a view holds; all of them are counted."""

_CUT = frozenset({"limit", "idle", "time", "unreachable", "reset"})
_BUSY = "too many connections at once"
# How the membrane's reasons begin, and the same in few words that every machine would say.
_SHORT = (
    (re.compile(r"is not granted and ([0-9]+) questions are open"), "not asked: {} questions were open already"),
    (re.compile(r"is not granted"), "not granted"),
    (re.compile(r"was not approved"), "not approved"),
    (re.compile(r"was asked for, and the run was called off"), "the run was called off"),
    (re.compile(r"leads to no public address"), "no public address"),
    (re.compile(r"is no host that can be reached"), "no host that can be reached"),
    (re.compile(r"has to wait, and too many"), _BUSY),
    (re.compile(r"is one connection too many"), _BUSY),
    (re.compile(r"is granted, but the run has used up its bytes"), "the run has used up its bytes"),
    (re.compile(r"could not be looked up|has no address"), "its name leads nowhere"),
    (re.compile(r"did not answer|cannot be reached"), "no answer"),
)
_NOWHERE = re.compile(r"could not be looked up|has no address")
# The membrane's own sentence ends like this when there is something to type.
_ADVICE = re.compile(r" Grant it with: --net (\S+)\Z")


@dataclass(slots=True)
class Refused:
    """A place that the box did not get to, and how often that was said, at least.

    Attributes:
        host: As it was asked for.
        port: TCP port.
        reason: The membrane's sentence.
        times: How often.
        tried: Whether a connection was allowed and tried.
    """

    host: str
    port: int
    reason: str
    times: int = 1
    tried: bool = False

    @property
    def place(self) -> str:
        """`example.org:443`."""
        return place(self.host, self.port)

    @property
    def net(self) -> str:
        """The word after `--net` that would grant it; empty when none would."""
        found = _ADVICE.search(self.reason)
        return found[1] if found else ""

    @property
    def why(self) -> str:
        """The reason as a clause, without the place and the advice."""
        return _ADVICE.sub("", self.reason).removeprefix(f"{self.place} ").rstrip(".")

    @property
    def unreached(self) -> bool:
        """Whether nobody refused it: it was granted or approved, and nothing answered there."""
        return self.tried or _NOWHERE.match(self.why) is not None

    @property
    def short(self) -> str:
        """The reason in a few words that are the same on every machine."""
        for begins, words in _SHORT:
            if found := begins.match(self.why):
                return words.format(*found.groups())
        return "broken off before anything came" if self.tried else "refused"


@dataclass(slots=True)
class Reached:
    """A place that the box was let to: its connections together.

    Attributes:
        host: Normalised name or address.
        port: TCP port.
        rule: What granted it.
        connections: How many were allowed.
        failed: How many of them came to nothing.
        open: How many go on.
        bytes_out: Of all of them.
        bytes_in: Of all of them.
        seconds: Of all of them.
        ended: How they ended.
        detail: More about the latest that something cut.
    """

    host: str
    port: int
    rule: str
    connections: int = 0
    failed: int = 0
    open: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    seconds: float = 0.0
    ended: Counter[str] = field(default_factory=Counter)
    detail: str = ""

    @property
    def place(self) -> str:
        """`example.org:443`."""
        return place(self.host, self.port)

    @property
    def stood(self) -> bool:
        """Whether at least one connection stood, or goes on."""
        return self.connections > self.failed

    @property
    def cut(self) -> dict[str, int]:
        """How often something else than the two sides ended a connection, by what it was."""
        return {how: number for how, number in self.ended.items() if how in _CUT}


@dataclass(slots=True)
class Network:
    """All connections of a run.

    Attributes:
        refused: By host and port, in the order of their first refusal.
        reached: By host and port, in the order of their first connection.
        more_refused: Refusals of places that are no longer told apart.
        more_reached: Connections to places that are no longer told apart.
    """

    refused: dict[tuple[str, int], Refused] = field(default_factory=dict)
    reached: dict[tuple[str, int], Reached] = field(default_factory=dict)
    more_refused: int = 0
    more_reached: int = 0

    def __bool__(self) -> bool:
        return bool(self.refused or self.reached)

    @property
    def denied(self) -> list[Refused]:
        """Places that the box was not let to, in the order in which that was said."""
        return [one for one in self.refused.values() if not one.unreached]

    @property
    def unreached(self) -> list[Refused]:
        """Places that it was let to and did not get to: their names lead nowhere, or no connection ever stood."""
        nowhere = [one for one in self.refused.values() if one.unreached]
        tried = [one for one in self.reached.values() if not one.stood]
        return [*nowhere, *(Refused(one.host, one.port, one.detail, one.failed, tried=True) for one in tried)]

    @property
    def stood(self) -> list[Reached]:
        """Places that connections stood to, in the order of the first."""
        return [one for one in self.reached.values() if one.stood]

    def apply(self, event: EgressDecided | EgressClosed) -> None:
        """Take one fact."""
        where = (event.host, event.port)
        if isinstance(event, EgressClosed):
            self._closed(event)
        elif event.allowed:
            if where not in self.reached and len(self.reached) >= KEPT_PLACES:
                self.more_reached += 1
                return
            reached = self.reached.setdefault(where, Reached(*where, event.rule))
            reached.connections += 1
            reached.open += 1
        elif where in self.refused:
            known = self.refused[where]
            # Counted for each reason; another reason begins anew.
            known.times = max(known.times, event.times) if known.reason == event.reason else event.times
            known.reason = event.reason
        elif len(self.refused) >= KEPT_PLACES:
            self.more_refused += 1
        else:
            self.refused[where] = Refused(*where, event.reason, event.times)

    def _closed(self, event: EgressClosed) -> None:
        reached = self.reached.get((event.host, event.port))
        if reached is None:
            return
        reached.open = max(0, reached.open - 1)
        reached.bytes_out += event.bytes_out
        reached.bytes_in += event.bytes_in
        reached.seconds += event.duration
        reached.connections += event.times - 1
        reached.ended[event.ended] += event.times
        failed = event.ended == "unreachable" or (event.ended == "reset" and not event.bytes_in)
        reached.failed += event.times if failed else 0
        if event.ended in _CUT:
            reached.detail = event.detail


@dataclass(slots=True)
class Holding:
    """One lease of the run: what was said of it last, since when it is held, and what it was used for.

    Attributes:
        said: The latest change.
        since: When it was acquired.
        renewals: How often it was renewed.
        requests: How many requests a credential was added to.
        latest: The last of them, oldest first.
    """

    said: LeaseChanged
    since: datetime
    renewals: int = 0
    requests: int = 0
    latest: deque[LeaseUsed] = field(default_factory=lambda: deque(maxlen=KEPT_REQUESTS))

    @property
    def name(self) -> str:
        """`github:read`."""
        return f"{self.said.provider}:{self.said.scope}"

    @property
    def over(self) -> bool:
        """Whether the run holds it no more."""
        return self.said.change == "released"

    @property
    def end(self) -> LeaseEnd | Literal[""]:
        """How it ended; empty while it is held."""
        return lease_end(self.said.why) if self.over else ""

    @property
    def seconds(self) -> float:
        """From its first credential to what was said last."""
        return max(0.0, (self.said.at - self.since).total_seconds())


def hold(leases: dict[str, Holding], event: LeaseChanged | LeaseUsed) -> None:
    """Take one fact about a lease; a use of a lease that nobody spoke of is passed over."""
    held = leases.get(event.lease_id)
    if isinstance(event, LeaseUsed):
        if held is not None:
            held.requests += event.times
            held.latest.append(event)
    elif held is None:
        leases[event.lease_id] = Holding(event, event.at)
    else:
        # Its end says neither way nor place again.
        kept = {name: getattr(event, name) or getattr(held.said, name) for name in ("way", "place")}
        held.said = event.model_copy(update=kept)
        held.renewals += event.change == "renewed"


def lease_end(why: str) -> LeaseEnd:
    """How a lease ended, from what the run said of its end."""
    if why.startswith("revoked"):
        return "revoked"
    return "left to expire" if why.startswith("left to expire") else "given back"
