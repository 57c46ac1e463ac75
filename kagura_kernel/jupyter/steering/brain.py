"""The command about brains in a notebook."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kagura_kernel.jupyter.steering.asked import Asked, say

if TYPE_CHECKING:
    import pandas as pd


def listed(asked: Asked) -> pd.DataFrame:
    """Every brain, what it would think with, and what a turn would cost."""
    from kagura_kernel.assembly import load_settings
    from kagura_kernel.assembly.brains import brain_reports
    from kagura_kernel.cockpit.brains import turn_words
    from kagura_kernel.journal.place import data_home
    from kagura_kernel.jupyter.brain_table import brain_table

    journal = asked.cockpit.journal
    reports = brain_reports(os.environ, load_settings(os.environ), data_home(os.environ), journal, model=asked["model"])
    say(turn_words(reports))
    return brain_table(reports)
