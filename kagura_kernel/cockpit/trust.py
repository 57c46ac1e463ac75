"""What a person sees of earned trust and says about it, from every surface."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from kagura_kernel.brain.provider import REPLAY
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.categories import Category
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import NotThisTime, UnknownName
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, Event, RunStarted, TrustChanged
from kagura_kernel.domain.events.memory import TrustChange
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal import views
from kagura_kernel.journal.rows import RunRow, StoredEvent
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.trust import TrustHistory, TrustRecord
from kagura_kernel.patterns.trust import (
    BY_NAME,
    Point,
    Report,
    categorise,
    curve,
    goes_to,
    is_persons,
    may_grant,
    report,
    reports,
    task_digest,
)


def require_evidence(row: RunRow) -> None:
    """Whether a run can show anything at all.

    Raises:
        NotThisTime: it cannot; says why.
    """
    why = ""
    if row.flavour != "agent" or row.lineage:
        why = "it is no run of an agent that a person has given its task"
    elif row.status != "done":
        why = f"it is not done, but {row.status.replace('_', ' ')}"
    elif row.brain == REPLAY:
        why = "it played a cassette"
    elif row.untrusted:
        why = "it was shown memories that nobody had promoted"
    elif row.verified is False:
        why = "its verification failed"
    if why:
        raise NotThisTime(f"{row.run_id} is no evidence: {why}.")


def allowed_categories(rows: Iterable[StoredEvent], held: Iterable[str]) -> dict[str, frozenset[str]]:
    """The categories in which a person has allowed something, in their order, each with the names that it went to.

    The rows ask and decide; `held` are the credentials that runs had held before it began.
    """
    before, asked, found = frozenset(held), dict[str, ApprovalRequest](), dict[str, frozenset[str]]()
    for row in rows:
        match row.event:
            case ApprovalRequested() as event:
                asked[event.approval_id] = _request(event)
            case ApprovalDecided() as event if event.approval_id in asked and _is_persons_yes(event):
                request = asked[event.approval_id]
                category = categorise(request, before)
                if category is not None and BY_NAME[category].graduates:
                    found[category] = found.get(category, frozenset()) | goes_to(request)
            case _:
                pass
    return found


def task_of(events: Iterable[Event]) -> str:
    """What a run was asked to do."""
    return next((event.task for event in events if isinstance(event, RunStarted)), "")


def _request(event: ApprovalRequested) -> ApprovalRequest:
    return ApprovalRequest(
        event.approval_id,
        event.run_id,
        event.session_id,
        ApprovalKind(event.subject),
        event.title,
        event.detail,
        event.at,
        arguments=event.arguments,
    )


def _is_persons_yes(event: ApprovalDecided) -> bool:
    verdict = Verdict(event.verdict)
    decision = Decision(event.approval_id, verdict, event.by, event.via, event.at)
    return verdict is Verdict.ALLOW and is_persons(decision)


def revoked_words(after: Report) -> str:
    """What a person is told who has taken a category's trust back; what was never trusted lost nothing."""
    name = after.category.name
    began = f"{name} is trusted no more" if after.state == "demoted" else f"{name} was not trusted"
    return f"{began}: it is asked about every time from now on, and its evidence starts over."


NOW = "now"
"""The change of a curve's last point, at which nothing happened."""


def trust_terms(settings: Settings) -> TrustTerms:
    """What has to be shown, by a person's settings."""
    return TrustTerms(settings.trust_successes, settings.trust_tasks, settings.trust_days)


class TrustDesk:
    """One journal's; any thread may use it."""

    def __init__(self, journal: Journal, terms: TrustTerms, clock: Clock) -> None:
        self.terms = terms  # What has to be shown before a power is proposed
        self._journal = journal
        self._clock = clock
        self._history = TrustHistory(journal)

    def reports(self) -> list[Report]:
        """How every category stands; raises `JournalUnreadable`."""
        return reports(self._history.look(), self.terms, self._clock.now())

    def curve(self) -> list[Point]:
        """How they came there, in the order of the journal's rows, and where they are now, marked `now`.

        Raises:
            JournalUnreadable: it cannot be read.
        """
        points = curve(self._history.changes())
        latest = {point.category: point for point in points}
        now = self._clock.now()
        return points + [replace(point, at=max(now, point.at), change=NOW, run_id="") for point in latest.values()]

    def grant(self, name: str, *, by: str, via: str) -> Report:
        """Trust a category from now on; how it stands then.

        Raises:
            UnknownName: there is no such category.
            NotThisTime: it has not earned it yet; says what is missing.
            JournalError: it could not be read or stored.
        """
        category = _category(name)
        standing = self._history.look().get(name)
        before = report(category, standing, self.terms, self._clock.now())
        if before.state == "graduated":
            return before
        if standing is None or not may_grant(category, standing, self.terms, self._clock.now()):
            raise NotThisTime(f"{name} cannot be trusted yet. What is missing: {'; '.join(before.missing)}.")
        if standing.proposed_at is None:
            self._change(name, "proposed", by, via)
        self._change(name, "granted", by, via)
        after = self._report(category)
        if after.state != "graduated":
            raise NotThisTime(f"{name} cannot be trusted now: it has failed in this moment.")
        return after

    def vouch(self, run_id: str, *, by: str, via: str) -> list[str]:
        """Say that a run went well; the categories that it is evidence for, since a person had allowed it something.

        It counts from now on, whenever the run was, so that a week's evidence takes a week to be given; and not at all
        for a category that was set back since the run began.

        Raises:
            RunUnknown: there is no such run.
            NotThisTime: it is no evidence; says why.
            JournalError: it could not be read or stored.
        """
        run = views.one_run(self._journal, run_id)
        require_evidence(run)
        first, *_ = started = self._journal.events(run_id=run_id, kinds=("run.started",))
        asked = self._journal.events(run_id=run_id, kinds=("approval.requested", "approval.decided"))
        standings, began = self._history.look(), run.started_at
        allowed = allowed_categories(asked, self._history.held(before=first.seq))
        categories = [name for name in allowed if not _failed_since(standings.get(name), began)]
        if not categories:
            why = "you had allowed it nothing that trust is earned for, or that was set back since"
            raise NotThisTime(f"{run_id} is no evidence: {why}.")
        task = task_digest(task_of(row.event for row in started))
        for category in categories:
            of = {"run_id": run_id, "session_id": run.session_id, "task": task}
            self._change(category, "succeeded", by, via, **of, names=tuple(sorted(allowed[category])))
        return categories

    def revoke(self, name: str, *, by: str, via: str) -> Report:
        """Take a category's trust back, and start its evidence over; how it stands then.

        Raises:
            UnknownName: there is no such category.
            NotThisTime: it is one that is never trusted.
            JournalError: it could not be stored.
        """
        category = _category(name)
        if not category.graduates:
            raise NotThisTime(f"{name} is asked about every time, and never graduates: there is nothing to take back.")
        self._change(name, "demoted", by, via, why="a person took it back")
        return self._report(category)

    def _report(self, category: Category) -> Report:
        return report(category, self._history.look().get(category.name), self.terms, self._clock.now())

    def _change(self, name: str, change: TrustChange, by: str, via: str, **more: str | tuple[str, ...]) -> None:
        # Of no run, unless more is said.
        facts = {"run_id": "", "session_id": "", "at": self._clock.now(), "category": name, "change": change}
        self._journal.append(TrustChanged.model_validate({**facts, "signal": "human", "by": by, "via": via, **more}))


def _failed_since(standing: TrustRecord | None, began: datetime) -> bool:
    return standing is not None and standing.failure is not None and standing.failure.at >= began


def _category(name: str) -> Category:
    if (found := BY_NAME.get(name)) is None:
        raise UnknownName("category", name, sorted(BY_NAME))
    return found
