"""Decisions and words that a browser leaves for a run: once, in time, and heard where the run is."""

import asyncio
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from kagura_kernel.cockpit.approval_desk import Desk
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events import PersonSaid
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.sentences import take_sentences
from tests.support.jupyter_server import minted
from tests.support.sample_run import SampleRun

pytestmark = pytest.mark.usefixtures("told")


@pytest.fixture
def mailbox(told):
    return Mailbox(told.journal)


@pytest.fixture
def question(told, mailbox):
    """A question that waits, and is taken out again."""
    request = told.live.request(new_approval_id(), requested_at=SystemClock().now(), deadline=600.0)
    mailbox.post(request)
    yield request
    if mailbox.decision(request.id) is None:
        mailbox.decide(request.id, Verdict.ABORTED, by="test", via="test")


@pytest.mark.parametrize(("said", "verdict"), [("allow", "allow"), ("deny", "deny"), ("abort", "aborted")])
def test_a_decision_lies_in_the_mailbox_with_its_person_and_its_place(server, mailbox, question, said, verdict):
    answer = server.ask("POST", f"approvals/{question.id}/decision", {"verdict": said, "answer": "for today"})
    assert answer.status == 200
    left = mailbox.decision(question.id)
    assert (left.verdict, left.via, left.answer) == (verdict, "sidebar", "for today")
    assert answer.json["by"] == left.by
    assert not left.by.startswith("Anonymous")


def test_a_secret_in_an_answer_is_not_stored(server, mailbox, question):
    token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    server.ask("POST", f"approvals/{question.id}/decision", {"verdict": "allow", "answer": f"use {token}"})
    assert token not in mailbox.decision(question.id).answer


async def test_the_run_that_asked_hears_it(server, told, mailbox):
    desk = Desk(mailbox, SystemClock())
    request = told.live.request(new_approval_id(), requested_at=SystemClock().now(), deadline=60.0)
    waiting = asyncio.create_task(desk.approve(request))
    await asyncio.sleep(0)
    said = await asyncio.to_thread(server.ask, "POST", f"approvals/{request.id}/decision", {"verdict": "allow"})
    assert said.status == 200
    decision = await waiting
    assert (decision.verdict, decision.via) == (Verdict.ALLOW, "sidebar")


def test_who_comes_behind_the_deadline_is_told_so(server, told, mailbox):
    asked_at = SystemClock().now() - timedelta(seconds=61)
    request = told.live.request(new_approval_id(), requested_at=asked_at, deadline=60.0)
    mailbox.post(request)
    answer = server.ask("POST", f"approvals/{request.id}/decision", {"verdict": "allow"})
    assert (answer.status, answer.json["code"]) == (410, "ERR_APPROVAL_EXPIRED")
    assert mailbox.decision(request.id) is None

    mailbox.decide(request.id, Verdict.TIMEOUT, by="deadline", via="deadline")
    answer = server.ask("POST", f"approvals/{request.id}/decision", {"verdict": "allow"})
    assert (answer.status, answer.json["code"]) == (409, "ERR_APPROVAL_DECIDED")
    assert (answer.json["decision"]["verdict"], answer.json["decision"]["by"]) == ("timeout", "deadline")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"allow",
        b"[]",
        b'"allow"',
        b"null",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"verdict": "allow"' + b" " * 70_000 + b"}",
        {"verdict": "yes"},
        {"verdict": "allow", "by": "somebody else"},
    ],
    ids=lambda body: str(body)[:40],
)
def test_what_is_no_decision_is_refused_and_decides_nothing(server, mailbox, question, body):
    answer = server.ask("POST", f"approvals/{question.id}/decision", body)
    assert (answer.status, answer.json["code"]) == (400, "ERR_USAGE")
    assert mailbox.decision(question.id) is None


def test_nothing_can_be_decided_that_was_not_asked(server):
    answer = server.ask("POST", "approvals/app-none/decision", {"verdict": "allow"})
    assert (answer.status, answer.json["code"]) == (404, "ERR_APPROVAL_UNKNOWN")


def test_a_run_that_goes_on_is_left_the_word_to_stop(server, mailbox):
    answer = server.ask("POST", "runs/run-live/kill")
    assert (answer.status, answer.json) == (202, {"run_id": "run-live", "state": "stopping"})
    (message,) = mailbox.take(["run-live"])
    assert message.word == "kill"
    assert not message.by.startswith("Anonymous")


def test_a_run_whose_process_is_gone_is_marked_as_lost(server, told, mailbox):
    run = SampleRun("run-gone", "ses-gone", SystemClock().now())
    told.journal.append(run.started(owner=gone_owner()))
    told.journal.append(run.asked("app-gone", deadline=600.0))
    answer = server.ask("POST", "runs/run-gone/kill")
    assert (answer.status, answer.json) == (202, {"run_id": "run-gone", "state": "lost"})
    assert mailbox.take(["run-gone"]) == []
    assert server.get("approvals/app-gone")["verdict"] == "aborted"
    again = server.ask("POST", "runs/run-gone/kill")
    assert (again.status, again.json["code"]) == (409, "ERR_RUN_OVER")


def test_a_run_that_has_ended_cannot_be_stopped_and_none_that_never_was(server):
    assert server.ask("POST", "runs/run-ended/kill").json["code"] == "ERR_RUN_OVER"
    assert server.ask("POST", "runs/run-none/kill").json["code"] == "ERR_RUN_UNKNOWN"
    assert server.ask("POST", "runs/run-live/kill", {"force": True}).json["code"] == "ERR_USAGE"


@pytest.mark.parametrize(("refused", "status"), [("", 202), ("it only thinks", 409)])
def test_what_is_said_to_a_run_is_answered_as_its_process_has_stored_it(server, told, refused, status):
    def listen() -> None:
        while not (heard := take_sentences(told.journal, ["run-live"])):
            time.sleep(0.02)
        ((run_id, said),) = heard
        fields = {"sentence_id": said.id, "text": said.text, "by": said.by, "via": said.via, "refused": refused}
        told.journal.append(PersonSaid(run_id=run_id, session_id="ses-live", at=SystemClock().now(), **fields))

    process = threading.Thread(target=listen)
    process.start()
    answer = server.ask("POST", "runs/run-live/sentences", {"text": "the second sheet"})
    process.join(10)
    assert answer.status == status
    assert answer.json.get("code") == ("ERR_NOT_HEARD" if refused else None)
    event = told.journal.events(kinds=("person.said",))[-1].event
    assert isinstance(event, PersonSaid)
    assert (event.text, event.via) == ("the second sheet", "sidebar")
    assert not event.by.startswith("Anonymous")


def test_nothing_is_said_to_a_run_that_has_ended_and_nothing_empty_to_any(server):
    over = server.ask("POST", "runs/run-ended/sentences", {"text": "one more thing"})
    assert (over.status, over.json["code"]) == (409, "ERR_RUN_OVER")
    assert server.ask("POST", "runs/run-live/sentences", {"text": " "}).json["code"] == "ERR_USAGE"
    assert server.ask("POST", "runs/run-live/sentences", {}).status == 400


def test_a_lease_is_taken_back_and_its_run_told(server, told, mailbox):
    ledger = LeaseLedger(told.journal)
    now = SystemClock().now()
    ledger.begin(minted("lea-back", "run-live", now))
    ledger.complete("lea-back", handle="h", expires_at=now + timedelta(hours=1), dies_at=now + timedelta(hours=1))
    for _ in range(2):
        answer = server.ask("POST", "leases/lea-back/revoke")
        assert (answer.status, answer.json["run_id"]) == (202, "run-live")
    assert not ledger.is_live("lea-back")
    assert ledger.row("lea-back").why.startswith("revoked by ")
    assert {message.word for message in mailbox.take(["run-live"], ("leases",))} == {"leases"}
    (shown,) = [lease for lease in server.get("leases")["items"] if lease["lease_id"] == "lea-back"]
    assert (shown["state"], shown["revocable"]) == ("owed", False)
    ledger.close("lea-back", "revoked")
    over = server.ask("POST", "leases/lea-back/revoke")
    assert (over.status, over.json["code"]) == (409, "ERR_LEASE_ENDED")
    assert server.ask("POST", "leases/lea-none/revoke").json["code"] == "ERR_UNKNOWN_NAME"


def test_who_waits_for_the_lock_keeps_no_reader_waiting(server, question):
    with closing(sqlite3.connect(server.home / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(4) as threads:
            stuck = [
                threads.submit(server.ask, "POST", f"approvals/{question.id}/decision", {"verdict": "deny"})
                for _ in range(2)
            ]
            while not all(one.done() for one in stuck):
                assert server.get("status")["live"] >= 1
            for one in stuck:
                answer = one.result()
                assert (answer.status, answer.json["code"]) == (503, "ERR_JOURNAL_LOCKED")
        other.execute("ROLLBACK")
    assert server.ask("POST", f"approvals/{question.id}/decision", {"verdict": "deny"}).status == 200


def gone_owner():
    """This process, had it begun at another moment."""
    host, pid, began = process_owner().split(":")
    return f"{host}:{pid}:1{began}"
