"""Runs to learn from, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagura_kernel.domain.events import RunPlanned
from kagura_kernel.journal.precedents import MOST_LOOKED_AT, estimated, precedents, precedents_of
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import rebuild, runs
from kagura_kernel.testing.sample_run import SampleRun


def tell(journal: Journal, number: int, *, status: str = "done", started: Any = None, **finished: Any) -> str:
    """A run that is over."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    told = SampleRun(f"run-{number}", "ses-1", at)
    journal.append(told.started(**{"project": "/p"} | (started or {})))
    journal.append(told.finished(status=status, duration=30.0, **finished))
    return told.run_id


def test_the_newest_runs_of_a_brain_come_first_with_what_they_used(journal: Journal) -> None:
    tell(journal, 1, computed_usd=0.5, reported_usd=0.4, verified=False)
    tell(journal, 2, status="failed")
    tell(journal, 3, started={"brain": "other"}, brain="other")
    newest, oldest = precedents(journal, brain="claude", limit=9)
    assert (newest.run_id, newest.status, newest.usd, newest.verified) == ("run-2", "failed", None, None)
    assert (oldest.run_id, oldest.usd, oldest.seconds, oldest.verified) == ("run-1", 0.4, 30.0, False)
    assert (oldest.task, oldest.project) == ("count the rows", "/p")
    assert not newest.went_well
    assert not oldest.went_well


@pytest.mark.parametrize(
    "started",
    [{"lineage": ("run-0",)}, {"resumes": "run-0"}, {"flavour": "sandbox"}, {"flavour": "audit"}],
    ids=["a child", "one that went on from another", "a cell's own code", "an audit"],
)
def test_what_is_no_whole_run_of_an_agent_is_no_precedent(journal: Journal, started: dict[str, Any]) -> None:
    run = tell(journal, 1, started=started)
    assert precedents(journal, brain="claude", limit=9) == []
    assert precedents_of(journal, [run], brain="claude") == []


def test_a_run_that_goes_on_is_none(journal: Journal) -> None:
    journal.append(SampleRun().started())
    assert precedents(journal, brain="claude", limit=9) == []


def test_runs_of_one_project_are_told_alone_and_so_many(journal: Journal) -> None:
    for number in range(1, 5):
        tell(journal, number, started={"project": "/q"} if number % 2 else None)
    assert [row.run_id for row in precedents(journal, brain="claude", project="/q", limit=9)] == ["run-3", "run-1"]
    assert [row.run_id for row in precedents(journal, brain="claude", limit=1)] == ["run-4"]


def test_runs_that_are_named_are_found_however_old_they_are(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagura_kernel.journal.precedents.MOST_LOOKED_AT", 2)
    old, *_ = [tell(journal, number) for number in range(1, 5)]
    assert MOST_LOOKED_AT > 2
    assert [row.run_id for row in precedents(journal, brain="claude", limit=9)] == ["run-4", "run-3"]
    assert [row.run_id for row in precedents_of(journal, [old, "run-none"], brain="claude")] == [old]
    assert precedents_of(journal, [old], brain="other") == []


def test_runs_with_an_estimate_are_told_beside_it(journal: Journal) -> None:
    tell(journal, 1, estimated_usd=0.2, reported_usd=0.3)
    tell(journal, 2)
    tell(journal, 3, estimated_seconds=20.0)
    newest, oldest = estimated(journal)
    assert (newest.run_id, newest.estimated_seconds, newest.seconds) == ("run-3", 20.0, 30.0)
    assert (oldest.run_id, oldest.estimated_usd, oldest.usd) == ("run-1", 0.2, 0.3)
    assert [row.run_id for row in estimated(journal, run_ids=["run-1", "run-2"])] == ["run-1"]
    assert len(estimated(journal, limit=1)) == 1


@pytest.mark.parametrize(("agreed", "by", "budget"), [(0.5, "ada", 0.5), (None, "ada", None), (None, "", 2.0)])
def test_a_budget_that_a_person_agreed_on_is_the_runs(
    journal: Journal, agreed: float | None, by: str, budget: float | None
) -> None:
    told = SampleRun()
    base = {"run_id": told.run_id, "session_id": told.session_id, "at": told.at}
    journal.append(told.started(budget_usd=2.0))
    journal.append(RunPlanned(**base, asked=bool(by), agreed_usd=agreed, by=by))
    [row] = runs(journal)
    assert row.budget_usd == budget
    journal.verify()
    rebuild(journal)
    assert runs(journal) == [row]
