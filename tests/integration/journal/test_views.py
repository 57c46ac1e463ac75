import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import JournalUnreadable, LeaseEnded, UnknownName
from kagura_kernel.domain.events import BoxStarted, ChangesCollected, EgressClosed, EgressDecided, Event
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.journal import views
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow, leases_out, revoke_lease
from kagura_kernel.journal.mailbox import ANYWAY_SECONDS, LONGEST_PAUSE, PAUSE_SECONDS, SERVER_PAUSE, Glance, Mailbox
from kagura_kernel.journal.place import is_url
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import wait_until
from tests.support.sample_run import SampleRun

RUN = SampleRun()
BASE = {"run_id": "run-1", "session_id": "ses-1", "at": RUN.at}
BOX = BoxStarted(**BASE, box_id="box-1", backend="bubblewrap", isolation="namespace", reason="there is no daemon")
CHANGES = ChangesCollected(
    **BASE, changes=(FileChange(path="a", status="added"), FileChange(path="b", status="deleted"))
)


def tell(journal: Journal, *events: Event) -> None:
    for event in events:
        journal.append(event)


def test_a_run_is_shown_as_far_as_it_has_come(journal):
    tell(journal, RUN.started(model="m-0", owner="host:1:2", project="/work"), BOX, *RUN.tool(1), *RUN.tool(2))
    (row,) = views.runs(journal)
    assert (row.run_id, row.session_id, row.flavour, row.status) == ("run-1", "ses-1", "agent", "running")
    assert (row.task, row.brain, row.model, row.box) == ("count the rows", "claude", "m-0", "bubblewrap")
    assert (row.user, row.owner, row.project, row.started_at) == ("ada", "host:1:2", "/work", RUN.at)
    assert (row.duration, row.tool_calls, row.cost_usd, row.changed_files) == (None, 2, None, 0)


def test_a_finished_run_shows_its_ledger(journal):
    end = RUN.finished(status="failed", error_code="ERR_BRAIN_LOST", computed_usd=0.25, reported_usd=0.5, tool_calls=7)
    tell(journal, RUN.started(), CHANGES, end)
    (row,) = views.runs(journal)
    assert (row.status, row.error_code, row.duration, row.tool_calls) == ("failed", "ERR_BRAIN_LOST", 2.5, 7)
    assert (row.model, row.cost_usd, row.changed_files) == ("m-1", 0.5, 2)


def test_a_run_waits_for_approval_exactly_as_long_as_one_is_open(journal, mailbox):
    status = lambda: views.runs(journal)[0].status  # noqa: E731 - one word for many lines
    tell(journal, RUN.started(), RUN.asked("app-1"), RUN.asked("app-2"))
    assert status() == "awaiting_approval"
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="cell")
    assert status() == "awaiting_approval"
    journal.append(RUN.decided("app-2", verdict="deny"))
    assert status() == "running"
    journal.append(RUN.asked("app-3"))
    journal.append(RUN.finished(status="killed"))
    assert status() == "killed"


def test_runs_come_newest_first_and_by_session(journal):
    for number in range(5):
        journal.append(SampleRun(f"run-{number}", f"ses-{number % 2}").started())
    assert [row.run_id for row in views.runs(journal, limit=3)] == ["run-4", "run-3", "run-2"]
    assert [row.run_id for row in views.runs(journal, session_id="ses-1")] == ["run-3", "run-1"]


def test_unfinished_are_those_without_an_end(journal):
    for number in range(3):
        journal.append(SampleRun(f"run-{number}").started())
    journal.append(SampleRun("run-1").finished(status="stopped"))
    assert [row.run_id for row in views.unfinished(journal)] == ["run-2", "run-0"]


def test_a_run_that_ended_before_it_began_is_shown_all_the_same(journal):
    journal.append(RUN.finished(status="denied", error_code="ERR_APPROVAL_DENIED"))
    (row,) = views.runs(journal)
    assert (row.status, row.error_code, row.task) == ("denied", "ERR_APPROVAL_DENIED", "")


def test_money_that_is_not_known_is_none_and_never_zero(journal):
    tell(journal, RUN.started(), RUN.finished(reported_usd=None, computed_usd=None))
    (cost,) = views.costs(journal)
    assert (cost.reported_usd, cost.computed_usd) == (None, None)
    assert views.runs(journal)[0].cost_usd is None


def test_a_known_cost_of_nothing_stays_zero(journal):
    tell(journal, RUN.started(), RUN.finished(reported_usd=0.0, computed_usd=0.5))
    assert views.costs(journal)[0].reported_usd == 0.0
    assert views.runs(journal)[0].cost_usd == 0.0


def test_the_turns_of_a_running_run_add_up(journal):
    tell(
        journal, RUN.started(), RUN.counted(cache_read_tokens=40), RUN.counted(cache_write_tokens=5, computed_usd=0.25)
    )
    (cost,) = views.costs(journal)
    assert (cost.input_tokens, cost.output_tokens) == (200, 20)
    assert (cost.cache_read_tokens, cost.cache_write_tokens) == (40, 5)
    assert (cost.computed_usd, cost.reported_usd, cost.source) == (0.75, None, "list 1")
    assert (cost.model, cost.brain, cost.status, cost.at) == ("m-1", "claude", "running", RUN.at)


@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_one_turn_of_unknown_price_makes_the_sum_unknown(journal, unknown):
    journal.append(RUN.started())
    for number in range(3):
        journal.append(RUN.counted(computed_usd=None if number == unknown else 0.5))
    assert views.costs(journal)[0].computed_usd is None


def test_approvals_tell_who_decided_what_and_where(journal, mailbox):
    tell(journal, RUN.started(), RUN.asked("app-1", detail="git \udcff"), RUN.asked("app-2"))
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="sidebar")
    rows = {row.id: row for row in views.approvals(journal)}
    first, second = rows["app-1"], rows["app-2"]
    assert (first.verdict, first.by, first.via, first.detail) == ("allow", "ada", "sidebar", "git \\udcff")
    assert first.decided_at is not None
    assert (second.verdict, second.by, second.via, second.decided_at, second.answer) == (None, "", "", None, "")
    assert second.deadline_at - second.requested_at == timedelta(seconds=300)
    assert second.content_hash == RUN.request("app-2").content_hash
    assert [row.id for row in views.approvals(journal, pending_only=True)] == ["app-2"]
    assert len(views.approvals(journal, limit=1)) == 1


def test_the_events_of_one_run_are_all_of_it_and_nothing_else(journal):
    tell(journal, RUN.started(), SampleRun("run-2").started(), RUN.noted())
    assert [stored.event for stored in journal.events(run_id="run-1")] == [RUN.started(), RUN.noted()]
    assert journal.events(run_id="run-9") == []


def test_a_session_goes_on_from_the_last_run_that_left_a_word(journal):
    assert views.session_conversation(journal, "ses-1").word == ""
    for number, word in enumerate(["one", "two", ""]):
        run = SampleRun(f"run-{number}")
        tell(journal, run.started(), run.finished(brain_session=word))
    other = SampleRun("run-x", "ses-2")
    tell(journal, other.started(), other.finished(brain_session="three"))
    assert views.session_conversation(journal, "ses-1").word == "two"


def test_a_brain_does_not_go_on_from_the_word_of_another_one(journal):
    for number, brain in enumerate(["claude", "replay"]):
        run = SampleRun(f"run-{number}")
        tell(journal, run.started(brain=brain), run.finished(brain=brain, brain_session=f"of {brain}"))
    assert views.session_conversation(journal, "ses-1").word == "of replay"
    assert views.session_conversation(journal, "ses-1", brain="claude").word == "of claude"
    assert views.session_conversation(journal, "ses-1", brain="other").word == ""


def test_a_conversation_is_where_its_newest_run_has_left_it(journal):
    for number, word in enumerate(["0a$0.1", "0b$0.7", "0a$0.3", ""]):
        run = SampleRun(f"run-{number}", f"ses-{number}")
        tell(journal, run.started(brain="claude"), run.finished(brain="claude", brain_session=word))
    assert views.conversation_now(journal, "0a$0.1", brain="claude") == "0a$0.3"
    assert views.conversation_now(journal, "0c$0.1", brain="claude") == "0c$0.1"
    assert views.conversation_now(journal, "0a$0.1", brain="other") == "0a$0.1"
    assert [views.conversation_now(journal, word, brain="claude") for word in ("", "0a")] == ["", "0a"]


def test_a_very_long_task_is_cut_in_the_view_only(journal):
    journal.append(RUN.started(task="x" * 5000))
    assert views.runs(journal)[0].task == "x" * 500
    assert journal.events()[0].event.task == "x" * 5000


def test_the_views_are_rebuilt_from_the_events_whatever_was_done_to_them(journal, mailbox):
    tell(
        journal, RUN.started(owner="host:1:2"), BOX, *RUN.tool(), RUN.counted(), RUN.asked("app-1"), RUN.asked("app-2")
    )
    tell(journal, RUN.decided("app-1", verdict="deny"), CHANGES)
    mailbox.decide("app-2", Verdict.ALLOW, by="bob", via="sidebar")
    before = views.runs(journal), views.approvals(journal), views.costs(journal)
    with journal.writing() as writing:
        for damage in (
            "UPDATE journal_runs SET computed_usd = 0, status = 'done'",
            "UPDATE journal_approvals SET verdict = 'allow', title = 'harmless' WHERE id = 'app-1'",
            "UPDATE journal_approvals SET detail = '\"x\"' WHERE id = 'app-2'",
        ):
            writing.connection.execute(text(damage))
    assert views.runs(journal) != before[0]
    assert views.rebuild(journal) == journal.last_seq()
    assert (views.runs(journal), views.approvals(journal), views.costs(journal)) == before


def test_a_rebuild_that_meets_a_broken_row_changes_nothing(journal):
    tell(journal, RUN.started(), RUN.noted())
    with journal.writing() as writing:
        writing.connection.execute(text("UPDATE journal_events SET body = 'no json' WHERE seq = 2"))
    with pytest.raises(JournalUnreadable, match="row 2 is no event"):
        views.rebuild(journal)
    with pytest.raises(JournalUnreadable, match="row 2 is no event"):
        journal.events()
    assert len(views.runs(journal)) == 1


def connection(number: int, run_id: str, *, allowed: bool, minutes: int) -> EgressDecided:
    return EgressDecided(
        run_id=run_id,
        session_id="ses-1",
        at=RUN.at + timedelta(minutes=minutes),
        connection_id=f"con-{number}",
        host="pypi.org",
        port=443,
        allowed=allowed,
    )


def test_the_log_of_connections_joins_each_decision_with_its_end_and_can_be_narrowed(journal):
    journal.append(connection(1, "run-1", allowed=True, minutes=0))
    journal.append(connection(1, "run-2", allowed=True, minutes=1))
    journal.append(connection(2, "run-2", allowed=False, minutes=2))
    base = {"run_id": "run-2", "session_id": "ses-1", "at": RUN.at}
    journal.append(EgressClosed(**base, connection_id="con-1", host="pypi.org", port=443, bytes_in=7))
    told = [(row.run_id, row.connection_id, row.allowed, row.bytes_in) for row in views.egress(journal)]
    assert told == [("run-2", "con-2", False, 0), ("run-2", "con-1", True, 7), ("run-1", "con-1", True, 0)]
    since = RUN.at + timedelta(minutes=1)
    assert [row.connection_id for row in views.egress(journal, since=since)] == ["con-2", "con-1"]
    assert [row.run_id for row in views.egress(journal, run_id="run-1")] == ["run-1"]
    assert [row.connection_id for row in views.egress(journal, refused_only=True)] == ["con-2"]
    assert len(views.egress(journal, limit=1)) == 1


def test_requests_with_leased_credentials_are_listed_the_newest_first_and_can_be_narrowed(journal):
    later = SampleRun("run-2", at=RUN.at + timedelta(minutes=1))
    for event in (RUN.used("/a"), RUN.refused(), later.used("/b", status=0, why="its lease is over")):
        journal.append(event)
    told = [(row.run_id, row.path, row.status, row.why) for row in views.lease_uses(journal)]
    assert told == [("run-2", "/b", 0, "its lease is over"), ("run-1", "/a", 200, "")]
    assert [row.path for row in views.lease_uses(journal, since=later.at)] == ["/b"]
    assert [row.path for row in views.lease_uses(journal, run_id="run-1")] == ["/a"]
    assert [row.path for row in views.lease_uses(journal, limit=1)] == ["/b"]


def test_runs_are_found_by_the_end_of_their_id_letter_by_letter(journal):
    for run_id in ("run-a1", "run-b1", "run-b_"):
        journal.append(SampleRun(run_id).started())
    assert views.runs_ending(journal, "1") == ["run-b1", "run-a1"]
    assert views.runs_ending(journal, "a1") == ["run-a1"]
    assert views.runs_ending(journal, "_") == ["run-b_"]
    for word in ("A1", "%", ""):
        assert views.runs_ending(journal, word) == []


HOUR = timedelta(hours=1)


@pytest.fixture
def ledger(journal: Journal) -> LeaseLedger:
    journal.append(RUN.started())
    return LeaseLedger(journal)


def mint(ledger: LeaseLedger, key: str, *, lease_id: str = "", run_id: str = "run-1", minute: int = 0) -> None:
    at = RUN.at + timedelta(minutes=minute)
    ledger.begin(
        LeaseRow(key, lease_id or key, run_id, "ses-1", "o", "github", "read", at, at + HOUR, at + HOUR, 3600, 600, 4)
    )
    ledger.complete(key, handle="sealed", expires_at=at + HOUR, dies_at=at + HOUR)


def test_a_lease_is_told_by_its_run_and_can_be_taken_back_while_the_ledger_has_it(journal, ledger):
    mint(ledger, "lea-1")
    journal.append(RUN.lease())
    (view,) = leases_out(journal)
    assert (view.state, view.way, view.revocable) == ("live", "header", True)
    journal.append(RUN.lease("held up", seconds_left=0.0))
    (view,) = leases_out(journal)
    assert (view.state, view.way, view.revocable) == ("held up", "header", True)
    ledger.close("lea-1", "expired")
    journal.append(RUN.lease("on hold"))
    (view,) = leases_out(journal)
    assert (view.state, view.revocable) == ("on hold", False)
    journal.append(RUN.lease("released"))
    assert leases_out(journal) == []


def test_what_only_the_ledger_knows_is_told_by_its_newest_credential(journal, ledger):
    mint(ledger, "lea-1")
    mint(ledger, "lea-2", lease_id="lea-1", minute=10)
    ledger.owe("lea-1", "renewed")
    (view,) = leases_out(journal)
    assert (view.lease_id, view.state, view.expires_at) == ("lea-1", "live", RUN.at + timedelta(minutes=70))
    assert (view.budget_left, view.revocable) == (3000, True)
    ledger.owe("lea-2", "its run is over")
    (view,) = leases_out(journal)
    assert (view.state, view.revocable, view.why) == ("owed", False, "its run is over")


def test_leases_of_runs_that_have_ended_are_told_by_the_ledger_alone(journal, ledger):
    journal.append(RUN.lease())
    journal.append(RUN.finished())
    assert leases_out(journal) == []
    mint(ledger, "lea-1")
    ledger.owe("lea-1", "no answer")
    assert [view.state for view in leases_out(journal)] == ["owed"]


def test_taking_a_lease_back_is_written_before_its_run_is_told(journal, ledger):
    mint(ledger, "lea-1")
    mint(ledger, "lea-2", lease_id="lea-1", minute=1)
    mint(ledger, "lea-3")
    journal.append(RUN.lease())
    for _ in range(2):
        assert revoke_lease(journal, "lea-1", by="ada") == "run-1"
    assert {row.id: row.state for row in ledger.open_rows()} == {"lea-1": "owed", "lea-2": "owed", "lea-3": "live"}
    assert [message.by for message in Mailbox(journal).take(["run-1"], ("leases",))] == ["ada", "ada"]
    first = leases_out(journal)[0]
    assert (first.state, first.why, first.revocable) == ("owed", "revoked by ada", False)


def test_a_lease_whose_run_nobody_knows_is_taken_back_all_the_same(journal, ledger):
    mint(ledger, "lea-1", run_id="run-unheard-of")
    assert revoke_lease(journal, "lea-1", by="ada") == "run-unheard-of"
    assert not ledger.is_live("lea-1")


def test_what_is_over_or_never_was_cannot_be_taken_back(journal, ledger):
    mint(ledger, "lea-1")
    ledger.close("lea-1", "revoked")
    with pytest.raises(LeaseEnded, match="revoked"):
        revoke_lease(journal, "lea-1", by="ada")
    with pytest.raises(UnknownName):
        revoke_lease(journal, "lea-none", by="ada")


def look(glance: Glance) -> bool:
    """Whether a look was worth it; it is over now."""
    news = glance.news()
    if news is not None:
        glance.seen(news)
    return news is not None


def settled(glance: Glance) -> None:
    """Return when there is nothing new: a server counts its own housekeeping as well."""
    wait_until(lambda: not look(glance))


@pytest.fixture
def still(tmp_path: Path) -> Iterator[tuple[Journal, FakeClock]]:
    """A journal in which time stands still."""
    clock = FakeClock()
    journal = Journal.open(tmp_path / "still", clock=clock)
    yield journal, clock
    journal.close()


def test_what_another_process_writes_is_news_once(open_journal, journal):
    glance = Glance(open_journal())
    settled(glance)
    journal.append(RUN.started())
    assert look(glance)
    settled(glance)


def test_what_the_same_journal_writes_is_news_too(journal):
    glance = Glance(journal)
    settled(glance)
    journal.append(RUN.started())
    assert look(glance)


def test_what_is_written_during_a_look_is_news_to_the_next_one(open_journal, journal):
    glance = Glance(open_journal())
    news = glance.news()
    assert news is not None
    journal.append(RUN.started())
    glance.seen(news)
    assert look(glance)


def test_a_look_that_was_not_finished_is_made_again(journal):
    glance = Glance(journal)
    assert glance.news() is not None
    assert glance.news() is not None


def test_whoever_wants_something_else_now_has_news_even_in_the_middle_of_a_look(still):
    glance = Glance(still[0])
    news = glance.news()
    assert news is not None
    glance.forget()
    glance.seen(news)
    assert look(glance)
    assert not look(glance)


def test_now_and_then_a_look_is_made_whatever_the_journal_says(still):
    journal, clock = still
    glance = Glance(journal)
    assert look(glance)
    assert not look(glance)
    asyncio.run(clock.advance(ANYWAY_SECONDS))
    assert look(glance)
    assert not look(glance)


def test_several_threads_may_give_glances_to_one_journal(open_journal, journal):
    shared = open_journal()

    def many(number: int) -> int:
        glance = Glance(shared)
        return sum(look(glance) for _ in range(200 + number))

    with ThreadPoolExecutor(4) as threads:
        counts = [threads.submit(many, number) for number in range(4)]
        for _ in range(20):
            journal.append(RUN.noted())
        assert all(count.result() >= 1 for count in counts)


def test_a_journal_that_was_closed_says_so(open_journal):
    journal = open_journal()
    glance = Glance(journal)
    assert look(glance)
    journal.close()
    with pytest.raises(JournalUnreadable):
        glance.news()


def test_a_server_that_is_far_away_is_asked_less_often_and_still_twice_a_second(journal, where, monkeypatch):
    took = [0.0]
    # The time that passes is that of the glances alone.
    monkeypatch.setattr("kagura_kernel.journal.mailbox.time.perf_counter", lambda: took[0])
    mark = journal.mark

    def far(*seconds: float) -> float:
        ways = iter(seconds)

        def slow() -> str:
            took[0] += next(ways)
            return mark()

        monkeypatch.setattr(journal, "mark", slow)
        glance = Glance(journal)
        for _ in seconds:
            glance.news()
        return glance.pause

    is_server = is_url(where)
    near = SERVER_PAUSE if is_server else PAUSE_SECONDS
    assert far(0, 0, 0, 0, 0, 0, 0, 0) == near
    assert far(3, 3, 3) == near
    assert far(3, 0.02, 3, 3, 3, 3, 3, 3) == pytest.approx(0.4 if is_server else PAUSE_SECONDS)
    assert far(3, 3, 3, 3, 3, 3, 3, 3) == (LONGEST_PAUSE if is_server else PAUSE_SECONDS)
