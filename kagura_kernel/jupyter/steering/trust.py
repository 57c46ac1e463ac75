"""Commands about earned trust in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.naming import named_run, told_run
from kagura_kernel.cockpit.trust import revoked_words
from kagura_kernel.jupyter.steering.asked import Asked, say
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    import pandas as pd


def graduation(asked: Asked) -> pd.DataFrame:
    """How every category stands."""
    from kagura_kernel.jupyter.tables import trust_table
    from kagura_kernel.jupyter.text_frame import TrustText, for_text

    desk = asked.cockpit.trust
    return for_text(trust_table(desk.reports(), desk.terms), TrustText, asked.shell)


def graduation_chart(asked: Asked) -> Any:
    """How they came there."""
    from kagura_kernel.jupyter.charts import chart

    return chart(asked.cockpit, "trust")


def graduation_grant(asked: Asked) -> None:
    """Trust a category from now on."""
    found = asked.cockpit.trust.grant(asked["category"], by=person(), via="command")
    say(f"{found.category.name} is asked about no more, until it fails once or you take it back.")


def graduation_vouch(asked: Asked) -> None:
    """Say that a run went well."""
    run_id = named_run(asked.cockpit.journal, asked["run"], asked.here)
    found = asked.cockpit.trust.vouch(run_id, by=person(), via="command")
    say(f"{told_run(asked.cockpit.journal, run_id)} is evidence for {', '.join(found)}.")


def graduation_revoke(asked: Asked) -> None:
    """Take it back."""
    found = asked.cockpit.trust.revoke(asked["category"], by=person(), via="command")
    say(revoked_words(found))
