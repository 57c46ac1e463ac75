"""Tables that show themselves as live boards below a cell: leases, runs, costs.

A board ends, and stays as it is then, when nothing goes on, when another opens, or when nobody has it on the screen any
more.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

import pandas as pd

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.records import Board, CostReport
from kagura_kernel.domain.approvals import ApprovalRequest, asked_fields
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.journal.leases import LeaseView
from kagura_kernel.journal.owner import told_process
from kagura_kernel.journal.rows import RunRow, made_of
from kagura_kernel.jupyter.charts.figures import cost_chart
from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.slots import Slot, Tell, press_lease, told, write_once
from kagura_kernel.jupyter.surface import Surface, loop_runs, person, place_of, surface_of
from kagura_kernel.jupyter.tables import board_table
from kagura_kernel.jupyter.text_frames import BoardText
from kagura_kernel.render.blocks import Blocks
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.html import Bundle, drawn
from kagura_kernel.render.text import lines_of
from kagura_kernel.views.boards import BudgetLine, RunLine, Sum, board_blocks, board_record, costs_blocks
from kagura_kernel.views.leases import LeaseLine, lease_board
from kagura_kernel.views.record import leases_record

LOOK_SECONDS = 0.5
"""How often the journal is asked; the front end hears only of what changed."""

Line = TypeVar("Line")


class LiveBoard(ABC, Generic[Line]):
    """A live board of one kind. It ends, and stays as it is then, when nothing goes on or another of its kind opens."""

    current: ClassVar[LiveBoard[Any] | None] = None  # Of each kind the one that lives: the one that was asked for last
    label: ClassVar[str]  # For screen readers
    is_kept: ClassVar[bool]  # Whether a notebook that is saved at once holds its finished form, and not the text alone

    @staticmethod
    @abstractmethod
    def look(cockpit: Cockpit) -> tuple[Sequence[Line], bool]:
        """The lines as they are now, and whether anything goes on. On any thread."""

    @staticmethod
    @abstractmethod
    def blocks(lines: Sequence[Line], now: datetime, *, live: bool) -> Blocks:
        """The board; without `live` it has no buttons, and says when it was so."""

    @staticmethod
    @abstractmethod
    def record(lines: Sequence[Line], now: datetime, /) -> dict[str, Any]:
        """The same for programs, by MIME type."""

    @staticmethod
    @abstractmethod
    def press(cockpit: Cockpit, content: Mapping[str, Any], tell: Tell) -> None:
        """Act on a button."""

    @classmethod
    def show(cls, cockpit: Cockpit) -> bool:
        """Show it below the cell; live while something goes on. False where no loop runs that could keep it so.

        Raises:
            JournalError: the journal cannot be read.
        """
        if not loop_runs():
            return False
        if cls.current is not None:
            cls.current.end()
        lines, going = cls.look(cockpit)
        if going:
            cls.current = cls(cockpit, lines)
        else:
            write_once(cls.bundle(lines, datetime.now(UTC)))
        return True

    def __init__(self, cockpit: Cockpit, lines: Sequence[Line]) -> None:
        self._cockpit = cockpit
        self._lines = lines
        self._slot = Slot()
        now = datetime.now(UTC)
        blocks = self.blocks(lines, now, live=True)
        still = self.bundle(lines, now) if self.is_kept else None
        text = "\n".join(lines_of(blocks))
        self._slot.open(self.label, text, {"all": blocks}, self._pressed, still)
        self._watching = asyncio.ensure_future(self._watch())

    def end(self) -> None:
        """Show it as it is, without buttons; nothing happens the second time."""
        kind = type(self)
        if kind.current is self:
            kind.current = None
            self._watching.cancel()
            self._slot.write(self.bundle(self._lines, datetime.now(UTC)))

    @classmethod
    def bundle(cls, lines: Sequence[Line], now: datetime) -> Bundle:
        """The finished form."""
        return drawn(cls.blocks(lines, now, live=False), cls.label) | cls.record(lines, now), {}

    def in_sight(self) -> bool:
        """Whether a front end may still show it."""
        return True

    def _pressed(self, content: Mapping[str, Any]) -> None:
        self.press(self._cockpit, content, self._slot.tell)

    async def _watch(self) -> None:
        try:
            going = True
            while going and self.in_sight():
                await asyncio.sleep(LOOK_SECONDS)
                # A journal on another machine may take its time: the kernel's loop goes on meanwhile.
                lines, going = await asyncio.to_thread(self.look, self._cockpit)
                if lines != self._lines:
                    self._lines = lines
                    self._slot.show({"all": self.blocks(lines, datetime.now(UTC), live=True)})
        except KaguraError:
            # The journal was closed or lost; whoever asks it next is told.
            pass
        self.end()


SEEN_SECONDS = 45.0
"""How long a board lives on after a front end was last known to show it."""
_ASK_SECONDS = 10.0
ENDED = 5
"""How many runs that are over a board shows."""


def press_board(cockpit: Cockpit, content: Mapping[str, Any], tell: Tell) -> None:
    """Act on a button of a board; what cannot be done is told, not raised. From any thread."""
    act, ident = content.get("act"), str(content.get("id") or "")
    with told(tell, ident):
        match act:
            case "allow" | "deny":
                cockpit.decide(ident, allow=act == "allow", by=person(), via="board")
            case "abort":
                cockpit.abort(ident, by=person(), via="board")
            case "stop":
                cockpit.kill(ident, by=person())
            case _:
                tell(f"This board has no button {act!r}.", "")


class RunBoard(LiveBoard[RunLine]):
    """All runs that go on, and the last that ended; it ends as well when nobody has it on the screen any more."""

    label = "Runs"
    is_kept = False
    blocks = staticmethod(board_blocks)
    record = staticmethod(board_record)
    press = staticmethod(press_board)

    def __init__(self, cockpit: Cockpit, lines: Sequence[RunLine]) -> None:
        self._asked = time.monotonic()
        super().__init__(cockpit, lines)

    @staticmethod
    def look(cockpit: Cockpit) -> tuple[list[RunLine], bool]:
        """The lines, and whether one of them goes on."""
        board = cockpit.board(ended=ENDED)
        lines = [_run_line(row, board) for row in (*board.live, *board.ended)]
        return lines, any(line.live for line in lines)

    def in_sight(self) -> bool:
        """Whether a front end may still show it: asked now and then, and answered by one that does."""
        now = time.monotonic()
        if now - self._asked >= _ASK_SECONDS:
            self._asked = now
            self._slot.ask_whether_seen()
        return self._slot.unseen_for() < SEEN_SECONDS


def _run_line(row: RunRow, board: Board) -> RunLine:
    gone = row.run_id in board.gone
    waiting = () if gone or not row.live else board.waiting.get(row.run_id, ())
    running = "waiting" if waiting else "running"
    here = not row.live or row.run_id in board.here
    return RunLine(
        run_id=row.run_id,
        name=_name(row),
        task=one_line(row.task, 300),
        status="lost" if gone else running if row.live else row.status,
        started_at=row.started_at,
        duration=row.duration,
        usd=row.cost_usd,
        where=", ".join(filter(None, [row.notebook, "" if here else "in another kernel"])),
        asks=tuple(map(_as_event, waiting)),
        live=row.live and not gone,
    )


def _name(row: RunRow) -> str:
    if row.flavour == "sandbox":
        return "Sandbox"
    name = " ".join(filter(None, [row.brain, row.model]))
    return name or ("Plugin audit" if row.flavour == "audit" else "")


def _as_event(request: ApprovalRequest) -> ApprovalRequested:
    """The question in the form that cards take."""
    return ApprovalRequested(
        run_id=request.run_id, session_id=request.session_id, at=request.requested_at, **asked_fields(request)
    )


class BoardFrame(pd.DataFrame):
    """Rows as they are now."""

    @staticmethod
    def show(cockpit: Cockpit) -> bool:
        """What is shown in place of the table; False where it cannot be."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        """Show the board, which lives; IPython calls this in place of showing the table.

        Raises:
            NotImplementedError: no loop runs that could keep it alive; IPython shows the table then.
        """
        with calm():
            # Looked up here, so that the frame holds nothing but its rows and can be copied and stored like any other.
            from kagura_kernel.assembly import get_cockpit

            if not self.show(get_cockpit()):
                raise NotImplementedError


class LeaseBoard(LiveBoard[LeaseLine]):
    """All leases of all runs."""

    label = "Leases"
    is_kept = True
    record = staticmethod(leases_record)
    press = staticmethod(press_lease)

    @staticmethod
    def look(cockpit: Cockpit) -> tuple[list[LeaseLine], bool]:
        """A run that goes on may get one at any time."""
        rows = cockpit.leases()
        return _lease_lines(cockpit, rows), bool(rows) or any(run.live for run in cockpit.runs())

    @staticmethod
    def blocks(lines: Sequence[LeaseLine], now: datetime, *, live: bool) -> Blocks:
        """A row for each."""
        return lease_board(lines if live else [replace(line, steerable=False) for line in lines], now, live=live)


def _lease_lines(cockpit: Cockpit, rows: Sequence[LeaseView]) -> list[LeaseLine]:
    elsewhere = any(not row.here for row in rows)
    owners = {run.run_id: run.owner for run in cockpit.runs()} if elsewhere else {}
    return [_lease_line(row, owners.get(row.run_id, "")) for row in rows]


def _lease_line(row: LeaseView, owner: str) -> LeaseLine:
    return made_of(
        LeaseLine,
        row,
        name=f"{row.provider}:{row.scope}",
        where=f"held by {row.run_id}" if row.here else f"held by {row.run_id}, {_elsewhere(row.lease_id, owner)}",
        steerable=row.here,
    )


def _elsewhere(lease_id: str, owner: str) -> str:
    """Which kernel holds it, and what ends it from here."""
    kernel = ": ".join(filter(None, ("in another kernel", told_process(owner))))
    return f"{kernel}; `kagura-kernel leases revoke {lease_id}` ends it"


class LeaseFrame(BoardFrame):
    """The leases as they are now. What is taken out of it is an ordinary DataFrame, and shown as one."""

    show = staticmethod(LeaseBoard.show)


class WatchFrame(BoardFrame):
    """The runs as they are now. What is taken out of it is an ordinary DataFrame, and shown as one."""

    show = staticmethod(RunBoard.show)


def watch(cockpit: Cockpit, shell: Any) -> Any:
    """The runs as a DataFrame, which in a notebook shows itself as the live board.

    Raises:
        JournalError: the journal cannot be read.
    """
    table = board_table(cockpit.board(ended=ENDED), datetime.now(UTC))
    if surface_of(shell) is Surface.NOTEBOOK:
        return WatchFrame(table)
    return BoardText(table)


def show_costs(cockpit: Cockpit) -> bool:
    """Show what was spent, and the chart. Raises `JournalError`: the journal cannot be read."""
    from IPython.core.getipython import get_ipython

    # A notebook may have had many sessions.
    report = cockpit.records.costs(cockpit.session_id, place_of(get_ipython()).notebook)
    sums, budget = sums_of(report)
    write_once((drawn(costs_blocks(sums, budget), "Costs"), {}))
    write_once(cost_chart(report).bundle())
    return True


def sums_of(report: CostReport) -> tuple[list[Sum], BudgetLine | None]:
    """The report as the panel takes it."""
    named = (("Today (UTC)", report.today), ("This notebook", report.here))
    sums = [Sum(label, spent.usd, spent.unpriced_runs, spent.runs) for label, spent in named]
    used = report.budget
    return sums, BudgetLine(used.run_id, used.usd_limit, used.usd_spent) if used is not None else None


class CostFrame(BoardFrame):
    """What runs used, one line each. What is taken out of it is an ordinary DataFrame, and shown as one."""

    show = staticmethod(show_costs)
