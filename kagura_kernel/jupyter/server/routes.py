"""The addresses of the server, and what each answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from kagura_kernel.domain.errors import ApprovalAlreadyDecided, KaguraError
from kagura_kernel.jupyter.server import asking
from kagura_kernel.jupyter.server.handler import ActingHandler, JournalHandler, ReadingHandler, Refusal, refusal
from kagura_kernel.jupyter.server.memory import (
    DemoteHandler,
    ForgetHandler,
    LessonsHandler,
    MemoriesHandler,
    MemoryCountsHandler,
    MemoryGrownHandler,
    MemoryHandler,
    PinHandler,
    PromoteHandler,
    RestoreHandler,
    UnpinHandler,
)
from kagura_kernel.jupyter.server.plugins import (
    PluginApproveHandler,
    PluginAuditHandler,
    PluginDisableHandler,
    PluginEnableHandler,
    PluginsHandler,
    PluginUnapproveHandler,
)

if TYPE_CHECKING:
    from kagura_kernel.journal.pages import ApprovalState, RunState
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.handler import Question


APPROVALS = "kagura_approvals"


class ApprovalsHandler(ReadingHandler):
    """Approvals, the newest first."""

    auth_resource = APPROVALS

    def question(self, *names: str) -> Question:
        """A page of those that wait, of those that are decided, or of all."""
        del names
        limit = asking.number("limit", self.word("limit"), 50, asking.MOST_ROWS)
        before = asking.short("before", self.word("before"))
        state = cast("ApprovalState | None", asking.one_of("state", self.word("state"), ("pending", "decided")))

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.approvals(journal, limit, before, state)

        return ask


class ApprovalHandler(ReadingHandler):
    """One approval."""

    auth_resource = APPROVALS

    def question(self, *names: str) -> Question:
        """The approval that the path names."""
        (approval_id,) = names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.approval(journal, approval_id)

        return ask


class DecisionHandler(ActingHandler):
    """Deciding one approval."""

    auth_resource = APPROVALS

    done_status = 200

    def deed(self, name: str, by: str) -> Question:
        """Leave the decision; the first one stands, and whoever comes later is told which that is."""
        verdict, said = asking.decision(self.body(asking.DECISION_FIELDS))

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import acting

            return acting.decide(journal, name, verdict, said, by)

        return act

    async def refused(self, error: KaguraError) -> Refusal:
        """Whoever came too late is told the decision that stands."""
        if not isinstance(error, ApprovalAlreadyDecided):
            return refusal(error)
        approval_id = error.approval_id

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.decision(journal, approval_id)

        try:
            return refusal(error, {"decision": await self.source.read(ask)})
        except KaguraError as trouble:
            return refusal(trouble)


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


LEASES = "kagura_leases"


class LeasesHandler(ReadingHandler):
    """Leases that are out, the oldest first."""

    auth_resource = LEASES

    def question(self, *names: str) -> Question:
        """All of them: there are never many."""
        del names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.leases(journal)

        return ask


class RevokeHandler(ActingHandler):
    """Taking one lease back."""

    auth_resource = LEASES

    def deed(self, name: str, by: str) -> Question:
        """Let nobody use it from here on, and tell its run to give it back."""
        self.body(asking.NO_FIELDS)

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import acting

            return acting.revoke(journal, name, by)

        return act


RUNS = "kagura_runs"


class RunsHandler(ReadingHandler):
    """Runs, the newest first."""

    auth_resource = RUNS

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

    auth_resource = RUNS

    def question(self, *names: str) -> Question:
        """The run that the path names."""
        (run_id,) = names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.run(journal, run_id)

        return ask


class RunCardHandler(ReadingHandler):
    """The card of a run that is over."""

    auth_resource = RUNS

    def question(self, *names: str) -> Question:
        """The card of the run that the path names."""
        (run_id,) = names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.run_card(journal, run_id)

        return ask


class RunEventsHandler(ReadingHandler):
    """What happened in one run, in its order."""

    auth_resource = RUNS

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

    auth_resource = RUNS

    def deed(self, name: str, by: str) -> Question:
        """Leave the run the word to stop."""
        self.body(asking.NO_FIELDS)

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import acting

            return acting.kill(journal, name, by)

        return act


OPENAPI = Path(__file__).with_name("openapi.yaml")


class StatusHandler(ReadingHandler):
    """How many approvals wait, how many runs go on, what today cost."""

    auth_resource = "kagura_status"

    def question(self, *names: str) -> Question:
        """The numbers."""
        del names

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import reading

            return reading.status(journal)

        return ask


class OpenApiHandler(JournalHandler):
    """The OpenAPI file."""

    auth_resource = "kagura_status"

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The file."""
        self._send()

    @web.authenticated
    @authorized
    async def head(self) -> None:
        """As GET, without the body."""
        self._send()

    def _send(self) -> None:
        self.finish(OPENAPI.read_bytes(), set_content_type="application/yaml")


class NoSuchRoute(JournalHandler):
    """Whatever else is asked for below our base."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Refuse."""
        self._refuse()

    @web.authenticated
    @authorized
    async def head(self) -> None:
        """Refuse."""
        self._refuse()

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> None:
        raise Refusal(404, "ERR_NOT_FOUND", "There is no such route; openapi.yaml lists those that there are.")


BASE = "/kagura/api/v1"
_ID = "([A-Za-z0-9_.~-]{1,200})"
_MEMORY = "([A-Za-z0-9_.:-]{1,128})"

ROUTES: list[tuple[str, type[APIHandler]]] = [
    (f"{BASE}/status", StatusHandler),
    (f"{BASE}/runs", RunsHandler),
    (f"{BASE}/runs/{_ID}", RunHandler),
    (f"{BASE}/runs/{_ID}/card", RunCardHandler),
    (f"{BASE}/runs/{_ID}/events", RunEventsHandler),
    (f"{BASE}/runs/{_ID}/kill", KillHandler),
    (f"{BASE}/approvals", ApprovalsHandler),
    (f"{BASE}/approvals/{_ID}", ApprovalHandler),
    (f"{BASE}/approvals/{_ID}/decision", DecisionHandler),
    (f"{BASE}/leases", LeasesHandler),
    (f"{BASE}/leases/{_ID}/revoke", RevokeHandler),
    (f"{BASE}/costs", CostsHandler),
    (f"{BASE}/plugins", PluginsHandler),
    (f"{BASE}/plugins/{_ID}/audit", PluginAuditHandler),
    (f"{BASE}/plugins/{_ID}/enable", PluginEnableHandler),
    (f"{BASE}/plugins/{_ID}/disable", PluginDisableHandler),
    (f"{BASE}/plugins/{_ID}/approve", PluginApproveHandler),
    (f"{BASE}/plugins/{_ID}/unapprove", PluginUnapproveHandler),
    (f"{BASE}/memories", MemoriesHandler),
    (f"{BASE}/memories/counts", MemoryCountsHandler),
    (f"{BASE}/memories/{_MEMORY}", MemoryHandler),
    (f"{BASE}/memories/{_MEMORY}/grown", MemoryGrownHandler),
    (f"{BASE}/memories/{_MEMORY}/promote", PromoteHandler),
    (f"{BASE}/memories/{_MEMORY}/demote", DemoteHandler),
    (f"{BASE}/memories/{_MEMORY}/pin", PinHandler),
    (f"{BASE}/memories/{_MEMORY}/unpin", UnpinHandler),
    (f"{BASE}/memories/{_MEMORY}/forget", ForgetHandler),
    (f"{BASE}/memories/{_MEMORY}/restore", RestoreHandler),
    (f"{BASE}/lessons", LessonsHandler),
    (f"{BASE}/openapi.yaml", OpenApiHandler),
    (f"{BASE}(?:/.*)?", NoSuchRoute),
]
