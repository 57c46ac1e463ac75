"""The live board of runs: what each waits for, its time and cost, and buttons.

It ends, and stays as it is then, when no run goes on, when another board opens, or when nobody has it on the screen any
more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.approvals import ApprovalRequest, asked_fields
from kagura_kernel.domain.errors import ApprovalError, KaguraError
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.jupyter.boards.live_board import LiveBoard
from kagura_kernel.jupyter.surface import person
from kagura_kernel.render.blocks import Blocks
from kagura_kernel.render.escape import one_line
from kagura_kernel.views.run_board import LABEL, RunLine, board_blocks, board_record

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.records import Board
    from kagura_kernel.journal.rows import RunRow

SEEN_SECONDS = 45.0
"""How long a board lives on after a front end was last known to show it."""
_ASK_SECONDS = 10.0
ENDED = 5
"""How many runs that are over a board shows."""


class RunBoard(LiveBoard[RunLine]):
    """All runs that go on, and the last that ended; it ends as well when nobody has it on the screen any more."""

    label = LABEL

    def __init__(self, cockpit: Cockpit, lines: Sequence[RunLine]) -> None:
        self._asked = time.monotonic()
        super().__init__(cockpit, lines)

    @staticmethod
    def look(cockpit: Cockpit) -> tuple[list[RunLine], bool]:
        """The lines, and whether one of them goes on."""
        lines = _lines(cockpit.board(ended=ENDED))
        return lines, any(line.live for line in lines)

    @staticmethod
    def blocks(lines: Sequence[RunLine], now: datetime, *, live: bool) -> Blocks:
        """A row for each."""
        return board_blocks(lines, now, live=live)

    @staticmethod
    def record(lines: Sequence[RunLine], now: datetime) -> dict[str, Any]:
        """The same for programs."""
        return board_record(lines, now)

    def in_sight(self) -> bool:
        """Whether a front end may still show it: asked now and then, and answered by one that does."""
        now = time.monotonic()
        if now - self._asked >= _ASK_SECONDS:
            self._asked = now
            self._slot.ask_whether_seen()
        return self._slot.unseen_for() < SEEN_SECONDS

    def _pressed(self, content: Mapping[str, Any]) -> None:
        press_board(self._cockpit, content, self._slot.tell)


def press_board(cockpit: Cockpit, content: Mapping[str, Any], tell: Any) -> None:
    """Act on a button of a board; what cannot be done is told, not raised. From any thread."""
    act, ident = content.get("act"), str(content.get("id") or "")
    try:
        match act:
            case "allow" | "deny":
                cockpit.decide(ident, allow=act == "allow", by=person(), via="board")
            case "abort":
                cockpit.abort(ident, by=person(), via="board")
            case "stop":
                cockpit.kill(ident, by=person())
            case _:
                tell(f"This board has no button {act!r}.", "")
    except ApprovalError as error:
        tell(error.message, ident)
    except KaguraError as error:
        tell(error.message, "")


def _lines(board: Board) -> list[RunLine]:
    return [_line(row, board) for row in (*board.live, *board.ended)]


def _line(row: RunRow, board: Board) -> RunLine:
    gone = row.run_id in board.gone
    waiting = () if gone or not row.live else board.waiting.get(row.run_id, ())
    running = "waiting" if waiting else "running"
    return RunLine(
        run_id=row.run_id,
        name=_name(row),
        task=one_line(row.task, 300),
        status="lost" if gone else running if row.live else row.status,
        started_at=row.started_at,
        duration=row.duration,
        usd=row.cost_usd,
        where=_where(row, board),
        asks=tuple(map(_as_event, waiting)),
        live=row.live and not gone,
    )


def _name(row: RunRow) -> str:
    if row.flavour == "sandbox":
        return "Sandbox"
    name = " ".join(filter(None, [row.brain, row.model]))
    return name or ("Plugin audit" if row.flavour == "audit" else "")


def _where(row: RunRow, board: Board) -> str:
    kernel = "" if not row.live or row.run_id in board.here else "in another kernel"
    return ", ".join(filter(None, [row.notebook, kernel]))


def _as_event(request: ApprovalRequest) -> ApprovalRequested:
    """The question in the form that cards take."""
    return ApprovalRequested(
        run_id=request.run_id, session_id=request.session_id, at=request.requested_at, **asked_fields(request)
    )
