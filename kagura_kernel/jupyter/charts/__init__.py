"""Charts of what the journal tells: costs over time, a run's timeline, connections by host, earned trust.

They are Vega-Lite, made and checked by altair, which is brought in by the first chart alone.
"""

from __future__ import annotations

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.journal import views
from kagura_kernel.jupyter.charts.figures import cost_chart, egress_chart, trust_chart
from kagura_kernel.jupyter.charts.picture import Chart
from kagura_kernel.jupyter.charts.timeline import timeline_chart

CHARTS = ("cost", "timeline", "egress", "trust")


def chart(cockpit: Cockpit, name: str, run_id: str | None = None) -> Chart:
    """A chart, to be shown as the value of a cell; its `.frame` holds the figures.

    `cost` is of the last thirty days, `timeline` of one run or of the latest, `egress` of one run or of all, and
    `trust` of all that was earned and lost.

    Raises:
        UnknownName: there is no such chart.
        RunUnknown: there is no such run.
        JournalError: the journal cannot be read.
    """
    match name:
        case "cost":
            return cost_chart(cockpit.records.costs(cockpit.session_id))
        case "timeline":
            return timeline_chart(cockpit, run_id)
        case "egress":
            if run_id is not None:
                views.one_run(cockpit.journal, run_id)
            return egress_chart(cockpit.records.connections(run_id), run_id)
        case "trust":
            return trust_chart(cockpit.trust.curve(), cockpit.trust.terms)
        case _:
            raise UnknownName("chart", name, list(CHARTS))
