"""The live board of runs: what each waits for, its time and cost, and buttons.

It ends, and stays as it is then, when no run goes on, when another board opens, or when nobody has it on the screen any
more; until then the journal is asked twice a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.approvals import ApprovalRequest
from kagura_kernel.domain.errors import ApprovalError, KaguraError
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.jupyter.cards.board import LABEL, RunLine, board_bundle, board_html, board_text
from kagura_kernel.jupyter.cards.escape import one_line
from kagura_kernel.jupyter.slots import Slot, write_once
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.records import Board
    from kagura_kernel.journal.rows import RunRow

LOOK_SECONDS = 0.5
"""How often the journal is asked; the front end hears only of what changed."""
SEEN_SECONDS = 45.0
"""How long a board lives on after a front end was last known to show it."""
_ASK_SECONDS = 10.0
ENDED = 5
"""How many runs that are over a board shows."""

# One board lives at a time: the one that was asked for last.
_open: list[RunBoard] = []


def show_board(cockpit: Cockpit) -> bool:
    """Show the board below the cell; live while a run goes on. False where no loop runs that could keep it so.

    Raises:
        JournalError: the journal cannot be read.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    while _open:
        _open[-1].end()
    lines = _lines(cockpit.board(ended=ENDED))
    if any(line.live for line in lines):
        _open.append(RunBoard(cockpit, lines))
    else:
        write_once(board_bundle(lines, datetime.now(UTC)))
    return True


class RunBoard:
    """A live board."""

    def __init__(self, cockpit: Cockpit, lines: list[RunLine]) -> None:
        self._cockpit = cockpit
        self._lines = lines
        self._slot = Slot()
        parts = {"all": board_html(lines, datetime.now(UTC))}
        self._slot.open(LABEL, board_text(lines), parts, self._pressed)
        self._asked = time.monotonic()
        self._watching = asyncio.ensure_future(self._watch())

    def end(self) -> None:
        """Show it as it is, without buttons; nothing happens the second time."""
        if self in _open:
            _open.remove(self)
            self._watching.cancel()
            self._slot.write(board_bundle(self._lines, datetime.now(UTC)))

    async def _watch(self) -> None:
        try:
            while any(line.live for line in self._lines) and self._in_sight():
                await asyncio.sleep(LOOK_SECONDS)
                # A journal on another machine may take its time: the kernel's loop goes on meanwhile.
                lines = await asyncio.to_thread(lambda: _lines(self._cockpit.board(ended=ENDED)))
                if lines != self._lines:
                    self._lines = lines
                    self._slot.show({"all": board_html(lines, datetime.now(UTC))})
        except KaguraError:
            # The journal was closed or lost; whoever asks it next is told.
            pass
        self.end()

    def _in_sight(self) -> bool:
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
        name=" ".join(filter(None, [row.brain, row.model])) if row.flavour == "agent" else "Sandbox",
        task=one_line(row.task, 300),
        status="lost" if gone else running if row.live else row.status,
        started_at=row.started_at,
        duration=row.duration,
        usd=row.cost_usd,
        where=_where(row, board),
        asks=tuple(map(_as_event, waiting)),
        live=row.live and not gone,
    )


def _where(row: RunRow, board: Board) -> str:
    kernel = "" if not row.live or row.run_id in board.here else "in another kernel"
    return ", ".join(filter(None, [row.notebook, kernel]))


def _as_event(request: ApprovalRequest) -> ApprovalRequested:
    """The question in the form that cards take."""
    return ApprovalRequested(
        run_id=request.run_id,
        session_id=request.session_id,
        at=request.requested_at,
        approval_id=request.id,
        subject=request.kind,
        title=request.title,
        detail=request.detail,
        reason=request.reason,
        arguments=dict(request.arguments),
        call_id=request.call_id,
        deadline=request.deadline,
        options=request.options,
        content_hash=request.content_hash,
    )
