"""How categories of deeds stand, as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.trust import lacking
from kagura_kernel.domain.visible import visible

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.cockpit.trust import Report
    from kagura_kernel.domain.patterns import TrustTerms

_COLUMNS = {
    "category": "string",
    "state": "string",
    "successes": "string",
    "tasks": "string",
    "days": "string",
    "last_failure": "datetime64[us, UTC]",
    "why": "string",
    "used": "Int64",
    "missing": "string",
    "about": "string",
}


def trust_table(reports: Sequence[Report], terms: TrustTerms) -> pd.DataFrame:
    """One line for each category; `used` is how often its grant has answered, `missing` what it still lacks."""
    import pandas as pd

    cells = [
        (
            one.category.name,
            one.state,
            f"{len(one.standing.successes)} of {terms.successes}",
            f"{one.standing.tasks} of {terms.tasks}",
            f"{one.days:.3g} of {terms.days:g}",
            None if one.standing.failure is None else one.standing.failure.at,
            None if one.standing.failure is None else visible(one.standing.failure.why),
            one.standing.applied,
            lacking(one),
            one.category.about,
        )
        for one in reports
    ]
    return pd.DataFrame(cells, columns=list(_COLUMNS), dtype=object).astype(_COLUMNS)
