"""Runs, what happened in them, and stopping one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kagura_kernel.jupyter.server import asking
from kagura_kernel.jupyter.server.handler import ActingHandler, ReadingHandler

if TYPE_CHECKING:
    from kagura_kernel.journal.pages import RunState
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.handler import Question

RESOURCE = "kagura_runs"


class RunsHandler(ReadingHandler):
    """Runs, the newest first."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """A page of those that the words of the query fit."""
        del names
        limit = asking.number("limit", self.word("limit"), 50, asking.MOST_ROWS)
        before, session, notebook, text = (
            asking.short(name, self.word(name)) for name in ("before", "session", "notebook", "q")
        )
        state = cast("RunState | None", asking.one_of("state", self.word("state"), ("live", "ended")))

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.runs(
                journal, limit=limit, before=before, state=state, session_id=session, notebook=notebook, text=text
            )

        return ask


class RunHandler(ReadingHandler):
    """One run."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """The run that the path names."""
        (run_id,) = names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.run(journal, run_id)

        return ask


class RunCardHandler(ReadingHandler):
    """The card of a run that is over."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """The card of the run that the path names."""
        (run_id,) = names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.run_card(journal, run_id)

        return ask


class RunEventsHandler(ReadingHandler):
    """What happened in one run, in its order."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """A page of the events of the run that the path names."""
        (run_id,) = names
        limit = asking.number("limit", self.word("limit"), 200, asking.MOST_EVENTS)
        after = asking.short("after", self.word("after"))

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.run_events(journal, run_id, after, limit)

        return ask


class KillHandler(ActingHandler):
    """Stopping one run."""

    auth_resource = RESOURCE

    def deed(self, name: str, by: str) -> Question:
        """Leave the run the word to stop."""
        self.body(asking.NO_FIELDS)

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import acting

            return acting.kill(journal, name, by)

        return act
