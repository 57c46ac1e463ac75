"""What `%kagura watch` gives in a notebook: a DataFrame to work with, which as the end of a cell is the live board."""

from __future__ import annotations

import pandas as pd

from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.run_board import show_board


class WatchFrame(pd.DataFrame):
    """The runs as they are now. What is taken out of it is an ordinary DataFrame, and shown as one."""

    def _ipython_display_(self) -> None:
        """Show the board of all runs, which lives; IPython calls this in place of showing the table.

        Raises:
            NotImplementedError: no loop runs that could keep it alive; IPython shows the table then.
        """
        with calm():
            # Looked up here, so that the frame holds nothing but its rows and can be copied and stored like any other.
            from kagura_kernel.assembly import get_cockpit

            if not show_board(get_cockpit()):
                raise NotImplementedError
