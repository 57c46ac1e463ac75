"""What `%kagura watch` gives in a notebook: a DataFrame to work with, which as the end of a cell is the live board."""

from __future__ import annotations

from kagura_kernel.jupyter.boards.board_frame import BoardFrame
from kagura_kernel.jupyter.boards.run_board import RunBoard


class WatchFrame(BoardFrame):
    """The runs as they are now. What is taken out of it is an ordinary DataFrame, and shown as one."""

    board = RunBoard
