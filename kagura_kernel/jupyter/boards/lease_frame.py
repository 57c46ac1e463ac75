"""What `%kagura leases` gives in a notebook: a DataFrame to work with, which as the end of a cell is the live board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.answers import press_lease
from kagura_kernel.jupyter.boards.board_frame import BoardFrame
from kagura_kernel.jupyter.boards.live_board import LiveBoard
from kagura_kernel.jupyter.cards.record import leases_record
from kagura_kernel.render.blocks import Blocks
from kagura_kernel.render.bundle import Bundle
from kagura_kernel.views.leases import LeaseLine, lease_board

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.records import LeaseView


class LeaseBoard(LiveBoard[LeaseLine]):
    """All leases of all runs."""

    label = "Leases"

    @staticmethod
    def look(cockpit: Cockpit) -> tuple[list[LeaseLine], bool]:
        """A run that goes on may get one at any time."""
        rows = cockpit.leases()
        return _lines(cockpit, rows), bool(rows) or any(run.live for run in cockpit.runs())

    @staticmethod
    def blocks(lines: Sequence[LeaseLine], now: datetime, *, live: bool) -> Blocks:
        """A row for each."""
        return lease_board(lines if live else [replace(line, steerable=False) for line in lines], now, live=live)

    @staticmethod
    def record(lines: Sequence[LeaseLine], now: datetime) -> dict[str, Any]:
        """The same for programs."""
        del now
        return leases_record(lines)

    def kept(self, lines: Sequence[LeaseLine]) -> Bundle:
        """The finished form as of now."""
        return self.bundle(lines, datetime.now(UTC))

    def _pressed(self, content: Mapping[str, Any]) -> None:
        press_lease(self._cockpit, content, self._slot.tell)


def _lines(cockpit: Cockpit, rows: Sequence[LeaseView]) -> list[LeaseLine]:
    elsewhere = {row.run_id for row in rows if not row.here}
    owners = {run.run_id: run.owner for run in cockpit.runs() if run.run_id in elsewhere} if elsewhere else {}
    return [_line(row, owners.get(row.run_id, "")) for row in rows]


def _line(row: LeaseView, owner: str) -> LeaseLine:
    return LeaseLine(
        lease_id=row.lease_id,
        name=f"{row.provider}:{row.scope}",
        state=row.state,
        expires_at=row.expires_at,
        budget_left=row.budget_left,
        renewals_left=row.renewals_left,
        way=row.way,
        place=row.place,
        why=row.why,
        where=f"held by {row.run_id}" if row.here else f"held by {row.run_id}, {_elsewhere(row.lease_id, owner)}",
        steerable=row.here,
    )


def _elsewhere(lease_id: str, owner: str) -> str:
    """Which kernel holds it, from `host:pid:start`, and what ends it from here."""
    host, _, rest = owner.partition(":")
    process = rest.partition(":")[0]
    kernel = f"in another kernel: process {process} on {host}" if process else "in another kernel"
    return f"{kernel}; `kagura-kernel leases revoke {lease_id}` ends it"


class LeaseFrame(BoardFrame):
    """The leases as they are now. What is taken out of it is an ordinary DataFrame, and shown as one."""

    board = LeaseBoard
