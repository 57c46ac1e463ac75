from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.errors import (
    ApprovalAlreadyDecided,
    ApprovalUnknown,
    JournalUnreadable,
    RunUnknown,
    UsageError,
)
from kagura_kernel.domain.events import Event
from kagura_kernel.journal import pages, views
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.pages import TOPICS, Change, Watch
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()


def test_a_question_is_seen_by_others_exactly_as_it_was_asked(mailbox, open_journal):
    asked = RUN.request(
        detail="rm '\udcff \x00 日本'",
        arguments={"command": ["rm", "\udcff", 1, None]},
        options=("a", "b"),
        deadline=7.5,
    )
    mailbox.post(asked)
    (seen,) = Mailbox(open_journal()).pending()
    assert seen == asked
    assert seen.content_hash == asked.content_hash


def test_questions_wait_in_the_order_in_which_they_were_asked(mailbox):
    late = RUN.at.replace(minute=5)
    mailbox.post(RUN.request("app-b", requested_at=late))
    mailbox.post(RUN.request("app-c"))
    mailbox.post(RUN.request("app-a", requested_at=late))
    assert [request.id for request in mailbox.pending()] == ["app-c", "app-a", "app-b"]


def test_posting_twice_keeps_the_first_text(mailbox):
    mailbox.post(RUN.request())
    mailbox.post(RUN.request(detail="something else"))
    assert [request.detail for request in mailbox.pending()] == ["git push"]


def test_the_event_and_the_mail_may_come_in_either_order(journal, mailbox):
    journal.append(RUN.asked("app-1"))
    mailbox.post(RUN.request("app-1"))
    mailbox.post(RUN.request("app-2"))
    journal.append(RUN.asked("app-2"))
    assert mailbox.pending() == [RUN.request("app-1"), RUN.request("app-2")]


def test_a_decision_left_by_one_is_found_by_the_other(mailbox, open_journal):
    mailbox.post(RUN.request())
    assert mailbox.decision("app-1") is None
    left = Mailbox(open_journal()).decide("app-1", Verdict.DENY, by="ada", via="sidebar", answer="not on a Friday")
    assert mailbox.decision("app-1") == left
    assert (left.verdict, left.by, left.via, left.answer) == (Verdict.DENY, "ada", "sidebar", "not on a Friday")
    assert mailbox.pending() == []


def test_the_first_decision_stands_and_the_second_hears_whose_it_was(mailbox):
    mailbox.post(RUN.request())
    first = mailbox.decide("app-1", Verdict.DENY, by="ada", via="cell")
    with pytest.raises(ApprovalAlreadyDecided) as caught:
        mailbox.decide("app-1", Verdict.ALLOW, by="bob", via="sidebar")
    assert (caught.value.verdict, caught.value.by) == ("deny", "ada")
    assert mailbox.decision("app-1") == first


def test_a_question_is_answered_in_words_and_waits_for_them(mailbox):
    mailbox.post(RUN.request(kind=ApprovalKind.QUESTION, options=("red", "blue")))
    with pytest.raises(UsageError, match="'red' or 'blue'"):
        mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="sidebar", answer=" ")
    assert mailbox.decision("app-1") is None
    assert mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="sidebar", answer="blue").answer == "blue"
    with pytest.raises(ApprovalAlreadyDecided):
        mailbox.decide("app-1", Verdict.ALLOW, by="bob", via="sidebar")


def test_a_question_may_be_left_without_an_answer(mailbox):
    mailbox.post(RUN.request(kind=ApprovalKind.QUESTION))
    assert not mailbox.decide("app-1", Verdict.DENY, by="ada", via="sidebar").allowed


def test_what_nobody_asked_cannot_be_decided(mailbox):
    with pytest.raises(ApprovalUnknown):
        mailbox.decide("app-9", Verdict.ALLOW, by="ada", via="cell")
    with pytest.raises(ApprovalUnknown):
        mailbox.decision("app-9")
    assert mailbox.decisions(["app-9"]) == {}


def test_of_many_threads_that_decide_exactly_one_wins(mailbox, open_journal):
    mailbox.post(RUN.request())
    boxes = [mailbox, Mailbox(open_journal())]

    def decide(number: int) -> str:
        verdict = Verdict.ALLOW if number % 2 else Verdict.DENY
        try:
            return boxes[number % 2].decide("app-1", verdict, by=f"person {number}", via="cell").by
        except ApprovalAlreadyDecided as error:
            return f"lost to {error.by}"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(decide, range(24)))
    winners = [word for word in said if word.startswith("person")]
    assert len(winners) == 1
    assert set(said) - set(winners) == {f"lost to {winners[0]}"}
    assert mailbox.decision("app-1").by == winners[0]


def test_many_decisions_are_read_at_once(mailbox):
    for number in range(4):
        mailbox.post(RUN.request(f"app-{number}"))
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="cell")
    mailbox.decide("app-3", Verdict.TIMEOUT, by="deadline", via="deadline")
    found = mailbox.decisions([f"app-{number}" for number in range(4)])
    assert {name: decision.allowed for name, decision in found.items()} == {"app-1": True, "app-3": False}
    assert mailbox.decisions([]) == {}


def test_a_decision_that_is_stored_as_an_event_shows_as_the_event_says(journal, mailbox):
    journal.append(RUN.asked())
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="sidebar")
    journal.append(RUN.decided(verdict="allow", by="ada", via="sidebar", answer="go"))
    (row,) = views.approvals(journal)
    assert (row.verdict, row.by, row.via, row.answer) == ("allow", "ada", "sidebar", "go")


def test_a_word_for_a_run_is_taken_once(journal, mailbox, open_journal):
    for number in (1, 2):
        journal.append(SampleRun(f"run-{number}").started())
    away = Mailbox(open_journal())
    away.send("run-1", "kill", by="ada")
    away.send("run-2", "kill", by="bob")
    assert mailbox.take([]) == []
    assert mailbox.take(["run-3"]) == []
    assert [(message.run_id, message.word, message.by) for message in mailbox.take(["run-1"])] == [
        ("run-1", "kill", "ada")
    ]
    assert mailbox.take(["run-1"]) == []
    assert [message.run_id for message in away.take(["run-1", "run-2"])] == ["run-2"]


def test_two_that_ask_for_words_at_once_do_not_get_the_same(journal, mailbox, open_journal):
    journal.append(RUN.started())
    for number in range(20):
        mailbox.send("run-1", "kill", by=str(number))
    boxes = [mailbox, Mailbox(open_journal())]
    with ThreadPoolExecutor(2) as pool:
        taken = [message.by for words in pool.map(lambda box: box.take(["run-1"]), boxes * 5) for message in words]
    assert sorted(taken, key=int) == [str(number) for number in range(20)]


def test_a_word_for_a_run_that_nobody_knows_is_refused(mailbox):
    with pytest.raises(RunUnknown):
        mailbox.send("run-9", "kill", by="ada")


def test_a_word_that_a_reader_does_not_know_waits_for_one_that_does(journal, mailbox):
    journal.append(RUN.started())
    mailbox.send("run-1", "leases", by="ada")
    assert mailbox.take(["run-1"]) == []
    mailbox.send("run-1", "kill", by="ada")
    assert [message.word for message in mailbox.take(["run-1"], ("kill", "leases"))] == ["leases", "kill"]
    assert mailbox.take(["run-1"], ("kill", "leases")) == []


def test_an_event_is_told_once_it_is_stored_to_every_listener_in_order(journal):
    heard: list[tuple[str, str, int]] = []
    for name in ("one", "two"):
        journal.listen(lambda event, name=name: heard.append((name, event.kind, journal.last_seq())))
    journal.append(RUN.started())
    journal.append(RUN.noted())
    assert heard == [
        ("one", "run.started", 1),
        ("two", "run.started", 1),
        ("one", "noted", 2),
        ("two", "noted", 2),
    ]


def begin_and_fail(journal: Journal) -> None:
    with journal.writing() as writing:
        writing.append(RUN.started())
        raise RuntimeError("no")


def test_what_is_rolled_back_is_not_told(journal):
    heard: list[Event] = []
    journal.listen(heard.append)
    with pytest.raises(RuntimeError, match="no"):
        begin_and_fail(journal)
    assert heard == []
    with journal.writing() as writing:
        writing.append(RUN.started())
        writing.append(RUN.noted())
        assert heard == []
    assert [event.kind for event in heard] == ["run.started", "noted"]


def test_rows_of_other_processes_are_not_told(journal, open_journal):
    heard: list[Event] = []
    journal.listen(heard.append)
    open_journal().append(RUN.started())
    assert heard == []


RUN_OF_WATCHING, OTHER = SampleRun(), SampleRun("run-2", "ses-2")


@pytest.fixture
def watch(open_journal: Callable[[], Journal], journal: Journal) -> Watch:
    """Looks from a second process at what the first one writes; has had its first look."""
    journal.append(RUN_OF_WATCHING.started())
    looking = Watch(open_journal())
    assert [change.topic for change in looking.look()] == list(TOPICS)
    return looking


def test_the_first_look_tells_everything_and_the_next_one_nothing(watch):
    assert watch.look() == []
    assert watch.look() == []


@pytest.mark.parametrize(
    ("event", "topics"),
    [
        (RUN_OF_WATCHING.noted(), []),
        (RUN_OF_WATCHING.said("something"), []),
        (RUN_OF_WATCHING.used(), []),
        (RUN_OF_WATCHING.tool()[0], ["runs"]),
        (RUN_OF_WATCHING.boxed(), ["runs"]),
        (RUN_OF_WATCHING.counted(), ["runs", "costs"]),
        (RUN_OF_WATCHING.lease(), ["leases"]),
        (RUN_OF_WATCHING.asked(), ["runs", "approvals"]),
        (RUN_OF_WATCHING.finished(), ["runs", "leases", "costs"]),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_an_event_is_told_to_the_lists_that_it_changes(watch, journal, event, topics):
    journal.append(event)  # type: ignore[arg-type]
    changes = watch.look()
    assert [change.topic for change in changes] == topics
    assert {(change.seq, change.run_id) for change in changes} <= {(2, "run-1")}
    assert watch.look() == []


def test_many_changes_are_told_once_and_of_several_runs_none_is_named(watch, journal):
    for run in (RUN_OF_WATCHING, OTHER):
        for _ in range(20):
            journal.append(run.counted())
    assert watch.look() == [Change("runs", 41), Change("costs", 41)]


def test_a_question_and_its_answer_are_seen_before_their_events(watch, journal):
    mailbox = Mailbox(journal)
    mailbox.post(RUN_OF_WATCHING.request())
    both = [Change("runs", 1, "run-1"), Change("approvals", 1, "run-1", "app-1")]
    assert watch.look() == both
    mailbox.decide("app-1", Verdict.ALLOW, by="ada", via="cell")
    assert watch.look() == both


def test_the_ledger_of_leases_is_watched(watch, journal):
    ledger = LeaseLedger(journal)
    hour = timedelta(hours=1)
    row = LeaseRow(
        "lea-1",
        "lea-1",
        "run-1",
        "ses-1",
        "o",
        "github",
        "read",
        RUN_OF_WATCHING.at,
        RUN_OF_WATCHING.at + hour,
        RUN_OF_WATCHING.at,
        1,
        0,
        0,
    )
    ledger.begin(row)
    leases = [Change("leases", 1, "run-1")]
    assert watch.look() == leases
    ledger.complete("lea-1", handle="h", expires_at=RUN_OF_WATCHING.at + hour, dies_at=RUN_OF_WATCHING.at + hour)
    assert watch.look() == leases
    ledger.owe("lea-1", "revoked")
    assert watch.look() == leases
    ledger.close("lea-1", "revoked")
    assert watch.look() == leases
    assert watch.look() == []


def test_a_word_that_is_left_for_a_run_changes_no_list(watch, journal):
    Mailbox(journal).send("run-1", "kill", by="ada")
    assert watch.look() == []


def test_behind_very_many_rows_everything_is_told(watch, journal, monkeypatch):
    monkeypatch.setattr(pages, "_TOO_MANY", 10)
    for _ in range(12):
        journal.append(RUN_OF_WATCHING.noted())
    assert watch.look() == [Change(topic, 13) for topic in TOPICS]


def test_its_own_process_is_watched_too(journal):
    watch = Watch(journal)
    watch.look()
    journal.append(RUN_OF_WATCHING.started())
    assert [change.topic for change in watch.look()] == ["runs", "costs", "plugins"]


def test_a_closed_journal_is_an_error(watch):
    watch.journal.close()
    with pytest.raises(JournalUnreadable):
        watch.look()
