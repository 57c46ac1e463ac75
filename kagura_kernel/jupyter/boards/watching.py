"""`%kagura watch`: all runs that go on, of every notebook on this journal, and the last that ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.boards.run_board import ENDED
from kagura_kernel.jupyter.surface import Surface, surface_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit


def watch(cockpit: Cockpit, shell: Any) -> Any:
    """The runs as a DataFrame, which in a notebook shows itself as the live board.

    Raises:
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.jupyter.tables import board_table

    table = board_table(cockpit.board(ended=ENDED), datetime.now(UTC))
    if surface_of(shell) is Surface.NOTEBOOK:
        from kagura_kernel.jupyter.boards.watch_frame import WatchFrame

        return WatchFrame(table)
    return table
