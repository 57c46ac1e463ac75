"""Brains as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kagura_kernel.domain.visible import visible

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.cockpit.brains import BrainReport

_COLUMNS = {
    "brain": "string",
    "ready": "boolean",
    "model": "string",
    "window": "Int64",
    "turn_usd": "Float64",
    "price_from": "string",
    "why": "string",
}


def brain_table(reports: Sequence[BrainReport]) -> pd.DataFrame:
    """One line for each brain, the preferred first; `turn_usd` is missing where the price is not known."""
    import pandas as pd

    cells = [
        (
            one.name,
            one.ready,
            visible(one.model) or None,
            one.window,
            one.turn_usd,
            one.source or None,
            visible(one.reason),
        )
        for one in reports
    ]
    return pd.DataFrame(cells, columns=list(_COLUMNS), dtype=object).astype(_COLUMNS)
