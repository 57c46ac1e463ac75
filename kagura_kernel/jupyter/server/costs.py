"""What runs cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.server import asking
from kagura_kernel.jupyter.server.handler import ReadingHandler

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.handler import Question


class CostsHandler(ReadingHandler):
    """Today and the days before, one notebook or session, and the budget in use."""

    auth_resource = "kagura_costs"

    def question(self, *names: str) -> Question:
        """The sums that the words of the query ask for."""
        del names
        days = asking.number("days", self.word("days"), 7, asking.MOST_DAYS)
        notebook, session = (asking.short(name, self.word(name)) for name in ("notebook", "session"))

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.costs(journal, days, notebook, session)

        return ask
