"""`%kagura leases` in a notebook: all leases of all runs, with timers that tick and buttons, until no run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.jupyter.answers import press_lease
from kagura_kernel.jupyter.cards.leases import LeaseLine, board_html, board_text
from kagura_kernel.jupyter.cards.record import leases_bundle
from kagura_kernel.jupyter.slots import Slot, write_once

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.leases import LeaseView

LABEL = "Leases"
LOOK_SECONDS = 0.5
"""How often the journal is asked; the front end hears only of what changed."""

_GOING_ON = frozenset({"running", "awaiting_approval"})

# One board lives at a time: the one that was asked for last.
_open: list[LeaseBoard] = []


def show_board(cockpit: Cockpit) -> bool:
    """Show the leases below the cell; live while a run goes on. False where no loop runs that could keep it so.

    Raises:
        JournalError: the journal cannot be read.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    while _open:
        _open[-1].end()
    rows = cockpit.leases()
    if rows or _runs_go_on(cockpit):
        _open.append(LeaseBoard(cockpit, rows))
    else:
        write_once(leases_bundle([], datetime.now(UTC)))
    return True


class LeaseBoard:
    """A live board. It ends, and stays as it is then, when no run goes on or another board opens."""

    def __init__(self, cockpit: Cockpit, rows: Sequence[LeaseView]) -> None:
        self._cockpit = cockpit
        self._lines = _lines(cockpit, rows)
        self._slot = Slot()
        parts = {"all": board_html(self._lines, datetime.now(UTC))}
        still = leases_bundle([_still(line) for line in self._lines], datetime.now(UTC))
        self._slot.open(LABEL, board_text(self._lines), parts, self._pressed, still)
        self._watching = asyncio.ensure_future(self._watch())

    def end(self) -> None:
        """Show it as it is, without buttons; nothing happens the second time."""
        if self in _open:
            _open.remove(self)
            self._watching.cancel()
            self._slot.write(leases_bundle([_still(line) for line in self._lines], datetime.now(UTC)))

    async def _watch(self) -> None:
        try:
            going = True
            while going:
                await asyncio.sleep(LOOK_SECONDS)
                # A journal on another machine may take its time: the kernel's loop goes on meanwhile.
                lines, going = await asyncio.to_thread(self._look)
                if lines != self._lines:
                    self._lines = lines
                    self._slot.show({"all": board_html(lines, datetime.now(UTC))})
        except KaguraError:
            # The journal was closed or lost; whoever asks it next is told.
            pass
        self.end()

    def _look(self) -> tuple[list[LeaseLine], bool]:
        rows = self._cockpit.leases()
        return _lines(self._cockpit, rows), bool(rows) or _runs_go_on(self._cockpit)

    def _pressed(self, content: Mapping[str, Any]) -> None:
        press_lease(self._cockpit, content, self._slot.tell)


def _runs_go_on(cockpit: Cockpit) -> bool:
    return any(row.status in _GOING_ON for row in cockpit.runs())


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


def _still(line: LeaseLine) -> LeaseLine:
    """The row without buttons."""
    import dataclasses

    return dataclasses.replace(line, steerable=False)
