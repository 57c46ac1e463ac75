"""Earned trust as a journal keeps it: for other processes, and on both databases."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from kagura_kernel.cockpit.trust import TrustDesk
from kagura_kernel.domain.errors import JournalUnreadable, NotThisTime, UnknownName
from kagura_kernel.domain.events import LeaseChanged, RunPlanned, TrustChanged
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.journal.precedents import MOST_LOOKED_AT, estimated, precedents, precedents_of, whole
from kagura_kernel.journal.schema import LEARNED
from kagura_kernel.journal.spending import with_children
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.trust import TrustHistory
from kagura_kernel.journal.views import costs, rebuild, runs
from kagura_kernel.testing.clock import FakeClock
from tests.support.sample_run import SampleRun

AT = datetime(2026, 1, 1, tzinfo=UTC)


def change(change: str, day: float = 0.0, **more: Any) -> TrustChanged:
    facts = {"run_id": f"run-{day:g}", "session_id": "ses-1", "category": "git", "task": f"task-{day}"} | more
    return TrustChanged(at=AT + timedelta(days=day), change=change, **facts)


def earn(journal: Journal) -> None:
    for day in (0, 2, 4, 6, 8):
        journal.append(change("succeeded", day, signal="exit-code"))


def desk(journal: Journal, day: float = 8.0) -> TrustDesk:
    return TrustDesk(journal, TrustTerms(), FakeClock(AT + timedelta(days=day)))


def test_what_one_process_wrote_another_one_knows(open_journal):
    first, second = open_journal(), open_journal()
    history = TrustHistory(second)
    assert history.look() == {}
    earn(first)
    assert len(history.look()["git"].successes) == 5
    first.append(change("failed", 9, signal="exit-code"))
    assert history.look()["git"].successes == ()
    assert len(history.changes()) == 6
    assert TrustHistory(open_journal()).look() == history.look()


def test_a_person_grants_what_was_earned_and_takes_it_back(open_journal):
    journal = open_journal()
    earn(journal)
    assert desk(journal).grant("git", by="ann", via="terminal").state == "graduated"
    standing = TrustHistory(open_journal()).look()["git"]
    assert (standing.graduated, standing.granted_by) == (True, "ann")
    assert desk(journal).grant("git", by="ann", via="terminal").state == "graduated"
    assert len(journal.events(kinds=("trust.changed",))) == 7
    assert desk(open_journal()).revoke("git", by="ann", via="terminal").state == "demoted"
    assert not TrustHistory(journal).look()["git"].graduated
    with pytest.raises(NotThisTime, match="5 more verified successes"):
        desk(journal).grant("git", by="ann", via="terminal")


@pytest.mark.parametrize("name", ["git", "packages", "force-push"])
def test_what_was_not_earned_is_not_granted(journal, name):
    with pytest.raises(NotThisTime, match=f"{name} cannot be trusted yet. What is missing: "):
        desk(journal).grant(name, by="ann", via="terminal")
    assert journal.last_seq() == 0


def test_what_never_graduates_cannot_be_taken_back(journal):
    with pytest.raises(NotThisTime, match="never graduates"):
        desk(journal).revoke("force-push", by="ann", via="terminal")


def test_an_unknown_category_is_named_as_such(journal):
    with pytest.raises(UnknownName, match="git"):
        desk(journal).grant("gti", by="ann", via="terminal")
    with pytest.raises(UnknownName, match="git"):
        desk(journal).revoke("gti", by="ann", via="terminal")


def test_which_credentials_runs_have_held(journal):
    history = TrustHistory(journal)
    about = {"run_id": "run-1", "session_id": "ses-1", "at": AT, "lease_id": "lea-1"}
    journal.append(LeaseChanged(**about, provider="aws", scope="deploy", change="acquired"))
    journal.append(LeaseChanged(**about, provider="aws", scope="other", change="released"))
    assert history.held() == {"aws:deploy"}
    journal.append(LeaseChanged(**about, provider="github", scope="read", change="acquired"))
    assert history.held() == {"aws:deploy", "github:read"}


def test_trust_is_found_by_its_index_however_long_the_journal_is(journal):
    earn(journal)
    if not journal.where.startswith("postgresql"):
        plan = journal.read(
            text(f"EXPLAIN QUERY PLAN SELECT seq FROM journal_events WHERE {LEARNED} AND kind = 'trust.changed'")
        )
        assert "journal_events_learned" in str(plan)
    assert len(TrustHistory(journal).look()["git"].successes) == 5


def test_a_row_that_cannot_be_read_is_told_and_earns_nothing(journal):
    earn(journal)
    with journal.writing() as writing:
        writing.connection.execute(text("UPDATE journal_events SET body = 'nothing' WHERE seq = 3"))
    with pytest.raises(JournalUnreadable):
        TrustHistory(journal).look()


def tell(journal: Journal, number: int, *, status: str = "done", started: Any = None, **finished: Any) -> str:
    """A run that is over."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    told = SampleRun(f"run-{number}", "ses-1", at)
    journal.append(told.started(**{"project": "/p"} | (started or {})))
    journal.append(told.finished(status=status, duration=30.0, **finished))
    return told.run_id


def test_the_newest_runs_of_a_brain_come_first_with_what_they_used(journal):
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
def test_what_is_no_whole_run_of_an_agent_is_no_precedent(journal, started):
    run = tell(journal, 1, started=started)
    assert precedents(journal, brain="claude", limit=9) == []
    assert precedents_of(journal, [run], brain="claude") == []


def test_a_run_that_goes_on_is_none(journal):
    journal.append(SampleRun().started())
    assert precedents(journal, brain="claude", limit=9) == []


def test_runs_of_one_project_are_told_alone_and_so_many(journal):
    for number in range(1, 5):
        tell(journal, number, started={"project": "/q"} if number % 2 else None)
    assert [row.run_id for row in precedents(journal, brain="claude", project="/q", limit=9)] == ["run-3", "run-1"]
    assert [row.run_id for row in precedents(journal, brain="claude", limit=1)] == ["run-4"]


def test_runs_that_are_named_are_found_however_old_they_are(journal, monkeypatch):
    monkeypatch.setattr("kagura_kernel.journal.precedents.MOST_LOOKED_AT", 2)
    old, *_ = [tell(journal, number) for number in range(1, 5)]
    assert MOST_LOOKED_AT > 2
    assert [row.run_id for row in precedents(journal, brain="claude", limit=9)] == ["run-4", "run-3"]
    assert [row.run_id for row in precedents_of(journal, [old, "run-none"], brain="claude")] == [old]
    assert precedents_of(journal, [old], brain="other") == []


def test_runs_with_an_estimate_are_told_beside_it(journal):
    tell(journal, 1, estimated_usd=0.2, reported_usd=0.3)
    tell(journal, 2)
    tell(journal, 3, estimated_seconds=20.0)
    newest, oldest = estimated(journal)
    assert (newest.run_id, newest.estimated_seconds, newest.seconds) == ("run-3", 20.0, 30.0)
    assert (oldest.run_id, oldest.estimated_usd, oldest.usd) == ("run-1", 0.2, 0.3)
    assert [row.run_id for row in estimated(journal, run_ids=["run-1", "run-2"])] == ["run-1"]
    assert len(estimated(journal, limit=1)) == 1


def ask(journal: Journal, run: str, approval: str, begun: int, over: int | None) -> None:
    """A question that was asked and answered so many seconds after the run's beginning; None for one that waits."""
    started = datetime(2026, 1, 1, 0, int(run.removeprefix("run-")), tzinfo=UTC)
    told = SampleRun(run, "ses-1", started)
    journal.append(told.asked(approval, requested_at=started + timedelta(seconds=begun)))
    if over is not None:
        journal.append(told.decided(approval, at=started + timedelta(seconds=over)))


def test_what_children_cost_belongs_to_the_run_that_handed_the_work_on(journal):
    tell(journal, 1, computed_usd=0.5, reported_usd=0.4)
    tell(journal, 2, started={"lineage": ("run-1",)}, computed_usd=0.1)
    tell(journal, 4, started={"lineage": ("run-1", "run-2")}, computed_usd=0.02, reported_usd=0.03)
    tell(journal, 3, computed_usd=0.7)
    alone, parent = whole(journal, precedents(journal, brain="claude", limit=9))
    assert (alone.run_id, alone.usd) == ("run-3", 0.7)
    assert (parent.usd, parent.counted_usd) == (pytest.approx(0.53), pytest.approx(0.62))
    assert [row.usd for row in whole(journal, precedents_of(journal, ["run-1"], brain="claude"))] == [parent.usd]


def test_a_child_of_unknown_cost_makes_the_whole_unknown_and_a_replay_costs_nothing(journal):
    tell(journal, 1, computed_usd=0.5)
    tell(journal, 2, started={"lineage": ("run-1",), "brain": "replay"}, brain="replay")
    [row] = whole(journal, precedents(journal, brain="claude", limit=9))
    assert (row.usd, row.counted_usd) == (0.5, 0.5)
    tell(journal, 3, started={"lineage": ("run-1",)})
    [row] = whole(journal, precedents(journal, brain="claude", limit=9))
    assert (row.usd, row.counted_usd) == (None, None)


def test_each_row_of_costs_is_the_runs_own_with_its_children_beside_it(journal):
    tell(journal, 1, computed_usd=0.5)
    tell(journal, 2, started={"lineage": ("run-1",)}, computed_usd=0.1)
    child, parent = with_children(journal, costs(journal))
    assert (parent.usd, parent.children, parent.children_usd, parent.total_usd) == (0.5, 1, 0.1, 0.6)
    assert (child.usd, child.children, child.total_usd) == (0.1, 0, 0.1)


def test_many_runs_are_looked_at_together_with_the_same_result(journal):
    for number in range(1, 46, 2):
        tell(journal, number, computed_usd=0.5)
        tell(journal, number + 1, started={"lineage": (f"run-{number}",)}, computed_usd=0.25)
    found = whole(journal, precedents(journal, brain="claude", limit=99))
    assert [row.usd for row in found] == [0.75] * 23


def test_the_time_in_which_a_person_was_waited_for_is_not_the_runs(journal):
    tell(journal, 1)
    ask(journal, "run-1", "app-1", 2, 12)
    ask(journal, "run-1", "app-2", 7, 17)
    ask(journal, "run-1", "app-3", 25, None)
    [row] = whole(journal, precedents(journal, brain="claude", limit=9))
    assert row.seconds == 15.0
    [cost] = with_children(journal, costs(journal))
    assert (cost.seconds, cost.waited_seconds, cost.worked_seconds) == (30.0, 15.0, 15.0)


def test_a_question_of_a_child_holds_its_parent_up_no_longer_than_it_went_on(journal):
    tell(journal, 1)
    tell(journal, 2, started={"lineage": ("run-1",)})
    ask(journal, "run-2", "app-1", 0, 3000)
    [row] = whole(journal, precedents(journal, brain="claude", limit=9))
    assert row.seconds == 30.0
    ask(journal, "run-2", "app-2", -50, 3000)
    [row] = whole(journal, precedents(journal, brain="claude", limit=9))
    assert row.seconds == 10.0


@pytest.mark.parametrize(("agreed", "by", "budget"), [(0.5, "ada", 0.5), (None, "ada", None), (None, "", 2.0)])
def test_a_budget_that_a_person_agreed_on_is_the_runs(journal, agreed, by, budget):
    told = SampleRun()
    base = {"run_id": told.run_id, "session_id": told.session_id, "at": told.at}
    journal.append(told.started(budget_usd=2.0))
    journal.append(RunPlanned(**base, asked=bool(by), agreed_usd=agreed, by=by))
    [row] = runs(journal)
    assert row.budget_usd == budget
    journal.verify()
    rebuild(journal)
    assert runs(journal) == [row]


@pytest.mark.parametrize("status", ["denied", "killed", "lost"])
def test_a_run_that_ended_before_it_had_thought_or_done_anything_is_no_precedent(journal, status):
    run = tell(journal, 1, status=status, turns=0, tool_calls=0)
    assert precedents(journal, brain="claude", limit=9) == []
    assert precedents_of(journal, [run], brain="claude") == []
    began = [tell(journal, 2, status=status, turns=1, tool_calls=0), tell(journal, 3, status=status, turns=0)]
    failed = tell(journal, 4, status="failed", turns=0, tool_calls=0)
    assert [row.run_id for row in precedents(journal, brain="claude", limit=9)] == [failed, *reversed(began)]
