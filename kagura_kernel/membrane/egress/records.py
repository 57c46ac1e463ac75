"""What is written down about the connections of one run, and how often.

A program that asks in a loop must not fill the journal, and what it did must stay true: the same refusal is recorded
the 1st, 2nd, 4th, 8th time. Of the connections to one target the first hundreds are recorded one by one; later ones
share rows that stand for 2, 4, 8 … of them, whose bytes and seconds are sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import EgressRefused
from kagura_kernel.domain.events import EgressClosed, EgressDecided, EgressEnd
from kagura_kernel.membrane.egress.gate import Admitted
from kagura_kernel.membrane.egress.limits import Meter

Record = Callable[[EgressDecided | EgressClosed], None]
"""Keeps a fact. Called on the loop; what it raises ends the connection, for what is not recorded does not happen."""

MAX_DISTINCT = 1024
"""Refused targets that are told apart; what comes after them is counted together."""

MAX_SINGLE = 500
"""Connections to one target that have rows of their own."""

MAX_SINGLE_RUN = 5000
"""Connections of a run that have rows of their own."""

MAX_TOGETHER = 4096
"""Connections that one pair of rows stands for at most: what a process that is killed has not written yet."""

MAX_ADDRESSES = 8
"""Addresses that one row names."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Connections to one target that share their rows."""

    first: Connection
    most: int
    begun: int = 0
    ended: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    seconds: float = 0.0
    ends: Counter[EgressEnd] = field(default_factory=Counter)
    addresses: dict[str, None] = field(default_factory=dict)
    detail: str = ""

    @property
    def full(self) -> bool:
        return self.begun >= self.most

    @property
    def over(self) -> bool:
        return self.full and self.ended >= self.begun

    def add(self, connection: Connection, seconds: float) -> None:
        self.ended += 1
        self.bytes_out += connection.out.count
        self.bytes_in += connection.into.count
        self.seconds += seconds
        self.ends[connection.ended] += 1
        self.detail = connection.detail or self.detail
        if connection.address:
            self.addresses.pop(connection.address, None)
            self.addresses[connection.address] = None
            if len(self.addresses) > MAX_ADDRESSES:
                del self.addresses[next(iter(self.addresses))]

    def told(self) -> str:
        """What the row of several connections says about them."""
        if self.ended == 1:
            return self.detail
        ends = ", ".join(f"{times} {end}" for end, times in self.ends.most_common())
        others = f" Dialled: {', '.join(self.addresses)}." if len(self.addresses) > 1 else ""
        return f"{self.ended} connections: {ends}.{others} {self.detail}".rstrip()


class Connection:
    """One allowed connection while it lasts: what would be recorded if it ended now."""

    def __init__(self, connection_id: str, admitted: Admitted, out: Meter, into: Meter, began: float) -> None:
        self.id = connection_id
        self.admitted = admitted
        self.out = out
        self.into = into
        self.began = began
        self.address = ""
        self.ended: EgressEnd = "cancelled"
        self.detail = ""
        self.batch: _Batch | None = None

    def over(self, ended: EgressEnd, detail: str = "") -> None:
        """It has ended, and how."""
        self.ended = ended
        self.detail = detail


class Records:
    """Writes the facts of one run; `end` when it gets no more connections."""

    def __init__(self, record: Record, run_id: str, session_id: str, clock: Clock) -> None:
        self._record = record
        self._run_id = run_id
        self._session_id = session_id
        self._clock = clock
        self._refusals: Counter[tuple[str, int, str]] = Counter()
        self._single: Counter[tuple[str, int]] = Counter()
        self._batches: dict[tuple[str, int], _Batch] = {}

    def refused(self, connection_id: str, refusal: EgressRefused) -> None:
        """A connection was not allowed."""
        key = (refusal.host, refusal.port, refusal.code)
        if key not in self._refusals and len(self._refusals) >= MAX_DISTINCT:
            key = ("", 0, refusal.code)
        self._refusals[key] += 1
        times = self._refusals[key]
        if times & (times - 1):
            return
        self._record(
            EgressDecided(
                run_id=self._run_id,
                session_id=self._session_id,
                at=self._clock.now(),
                connection_id=connection_id,
                host=refusal.host,
                port=refusal.port,
                allowed=False,
                reason=refusal.message,
                times=times,
            )
        )

    def allowed(self, connection: Connection) -> None:
        """A connection may be made; recorded before it is, by a row of its own or by one for several."""
        key = _place(connection)
        if self._single[key] < MAX_SINGLE and self._single.total() < MAX_SINGLE_RUN:
            self._decided(connection, 1)
            self._single[key] += 1
            return
        batch = self._batches.get(key)
        if batch is None or batch.full:
            most = 2 if batch is None else min(2 * batch.most, MAX_TOGETHER)
            self._decided(connection, most)
            batch = self._batches[key] = _Batch(connection, most)
        batch.begun += 1
        connection.batch = batch

    def closed(self, connection: Connection) -> None:
        """An allowed connection is over."""
        batch = connection.batch or _Batch(connection, 1, 1)
        batch.add(connection, self._clock.monotonic() - connection.began)
        if batch.over:
            self._closed(batch)

    def end(self) -> None:
        """No connection is allowed any more; what was summed up to now is written. May be called twice."""
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            # One that is full ends, or has ended, with its last connection.
            if not batch.full:
                batch.most = batch.begun
                if batch.ended == batch.begun:
                    self._closed(batch)

    def _decided(self, connection: Connection, times: int) -> None:
        admitted = connection.admitted
        several = f" This row stands for up to {times} connections." if times > 1 else ""
        self._record(
            EgressDecided(
                run_id=self._run_id,
                session_id=self._session_id,
                at=self._clock.now(),
                connection_id=connection.id,
                host=admitted.target.host,
                port=admitted.target.port,
                allowed=True,
                rule=admitted.rule,
                reason=f"{admitted.target} is {admitted.reason}.{several}",
                addresses=tuple(map(str, admitted.checked.allowed)),
                refused_addresses=tuple(f"{address}: {why}" for address, why in admitted.checked.refused),
                times=times,
            )
        )

    def _closed(self, batch: _Batch) -> None:
        host, port = _place(batch.first)
        self._record(
            EgressClosed(
                run_id=self._run_id,
                session_id=self._session_id,
                at=self._clock.now(),
                connection_id=batch.first.id,
                host=host,
                port=port,
                address=next(reversed(batch.addresses), ""),
                bytes_out=batch.bytes_out,
                bytes_in=batch.bytes_in,
                duration=batch.seconds,
                ended=batch.ends.most_common(1)[0][0],
                detail=batch.told(),
                times=batch.ended,
            )
        )


def _place(connection: Connection) -> tuple[str, int]:
    target = connection.admitted.target
    return target.host, target.port
