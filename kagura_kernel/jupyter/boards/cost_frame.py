"""What `%kagura cost` gives: a DataFrame of what each run used, which as the end of a cell is the cost panel."""

from __future__ import annotations

import pandas as pd

from kagura_kernel.jupyter.errors import calm


class CostFrame(pd.DataFrame):
    """What runs used, one line each. What is taken out of it is an ordinary DataFrame, and shown as one."""

    def _ipython_display_(self) -> None:
        """Show what was spent today, by this notebook and under its budget, and the chart; then the latest runs."""
        with calm():
            # Looked up here, so that the frame holds nothing but its rows and can be copied and stored like any other.
            from kagura_kernel.assembly import get_cockpit
            from kagura_kernel.jupyter.boards.cost_panel import show_costs

            show_costs(get_cockpit())
