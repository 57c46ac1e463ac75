"""Commands about agents and their kits in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.kits import one_of
from kagura_kernel.cockpit.naming import named_run
from kagura_kernel.jupyter.steering.asked import Asked, say
from kagura_kernel.jupyter.surface import Surface, loop_runs, surface_of

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.jupyter.kit import KitBrowser, PlanText


def kit_agents(asked: Asked) -> pd.DataFrame:
    """The agents that have a name."""
    from kagura_kernel.jupyter.kit import agents_table

    return agents_table(asked.cockpit.kits.named())


def kit_plan(asked: Asked) -> PlanText:
    """What a run of an agent would be given."""
    from kagura_kernel.jupyter.kit import PlanText

    return PlanText(asked.cockpit.kits.plan(asked["agent"]))


def kit_build(asked: Asked) -> None:
    """Stage an agent's kit."""
    from kagura_kernel.views.kit import built_lines

    kit = asked.cockpit.kits.build(asked["agent"])
    say("\n".join(built_lines(kit, unchanged=kit.unchanged)))


def kit_show(asked: Asked) -> KitBrowser:
    """What is staged, to look into."""
    from kagura_kernel.jupyter.kit import KitBrowser

    one_of(asked["agent"], asked["run"])
    cockpit = asked.cockpit
    if asked["run"] is not None:
        kit = cockpit.kits.of_run(cockpit.journal, named_run(cockpit.journal, asked["run"], asked.here))
    else:
        kit = cockpit.kits.build(asked["agent"])
    return KitBrowser(kit, asked["file"] or "", live=surface_of(asked.shell) is Surface.NOTEBOOK and loop_runs())


def kit_redact(asked: Asked) -> Any:
    """A file without its secrets."""
    from kagura_kernel.jupyter.kit import RedactedText

    return RedactedText(asked["file"].name, asked.cockpit.kits.redact_file(asked["file"]))
