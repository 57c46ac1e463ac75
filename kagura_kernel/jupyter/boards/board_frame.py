"""A DataFrame to work with, which as the end of a cell is a live board."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from kagura_kernel.jupyter.boards.live_board import LiveBoard
from kagura_kernel.jupyter.errors import calm


class BoardFrame(pd.DataFrame):
    """Rows as they are now."""

    board: ClassVar[type[LiveBoard[Any]]]  # What is shown in place of the table

    def _ipython_display_(self) -> None:
        """Show the board, which lives; IPython calls this in place of showing the table.

        Raises:
            NotImplementedError: no loop runs that could keep it alive; IPython shows the table then.
        """
        with calm():
            # Looked up here, so that the frame holds nothing but its rows and can be copied and stored like any other.
            from kagura_kernel.assembly import get_cockpit

            if not self.board.show(get_cockpit()):
                raise NotImplementedError
