"""What is written down about the connections of one run, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import EgressRefused
from kagura_kernel.domain.events import EgressClosed, EgressDecided, EgressEnd
from kagura_kernel.membrane.egress.gate import Admitted
from kagura_kernel.membrane.egress.limits import Meter

Record = Callable[[EgressDecided | EgressClosed], None]
"""Keeps a fact. Called on the loop; what it raises ends the connection, for what is not recorded does not happen."""

MAX_DISTINCT = 1024
"""Refused targets that are told apart; what comes after them is counted together."""


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

    def over(self, ended: EgressEnd, detail: str = "") -> None:
        """It has ended, and how."""
        self.ended = ended
        self.detail = detail


class Records:
    """Writes the facts of one run.

    A program that asks in a loop must not fill the journal: the same refusal is recorded the 1st, 2nd, 4th, 8th time.
    """

    def __init__(self, record: Record, run_id: str, session_id: str, clock: Clock) -> None:
        self._record = record
        self._run_id = run_id
        self._session_id = session_id
        self._clock = clock
        self._refusals: Counter[tuple[str, int, str]] = Counter()

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
        """A connection may be made; recorded before it is."""
        admitted = connection.admitted
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
                reason=f"{admitted.target} is {admitted.reason}.",
                addresses=tuple(map(str, admitted.checked.allowed)),
                refused_addresses=tuple(f"{address}: {why}" for address, why in admitted.checked.refused),
            )
        )

    def closed(self, connection: Connection) -> None:
        """An allowed connection is over."""
        self._record(
            EgressClosed(
                run_id=self._run_id,
                session_id=self._session_id,
                at=self._clock.now(),
                connection_id=connection.id,
                host=connection.admitted.target.host,
                port=connection.admitted.target.port,
                address=connection.address,
                bytes_out=connection.out.count,
                bytes_in=connection.into.count,
                duration=self._clock.monotonic() - connection.began,
                ended=connection.ended,
                detail=connection.detail,
            )
        )
