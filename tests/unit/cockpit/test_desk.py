from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kagura_kernel.cockpit.desk import Desk, PolicyApprover
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import ApprovalAborted, ApprovalAlreadyDecided, ApprovalExpired, ApprovalUnknown
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path / "state")
    yield journal
    journal.close()


@pytest.fixture
def desk(journal: Journal) -> Desk:
    return Desk(Mailbox(journal), SystemClock())


def question(deadline: float = 60.0) -> ApprovalRequest:
    return ApprovalRequest(
        id=new_approval_id(),
        run_id="run-1",
        session_id="ses-1",
        kind=ApprovalKind.HOST_COMMAND,
        title="run `ls` on the host",
        detail="ls",
        requested_at=datetime.now(UTC),
        deadline=deadline,
    )


async def put(desk: Desk, request: ApprovalRequest) -> asyncio.Task:
    task = asyncio.create_task(desk.approve(request))
    # The mailbox is a table: there is no event to wait for.
    while not any(open_one.id == request.id for open_one in desk.pending()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return task


async def test_an_answer_reaches_the_one_who_asked_with_who_and_where(desk):
    request = question()
    task = await put(desk, request)
    desk.decide(request.id, Verdict.ALLOW, by="ann", via="cell")
    decision = await asyncio.wait_for(task, 60)
    assert (decision.allowed, decision.by, decision.via) == (True, "ann", "cell")
    assert desk.pending() == []


async def test_an_answer_from_another_process_is_found(desk, journal):
    request = question()
    task = await put(desk, request)
    Mailbox(journal).decide(request.id, Verdict.DENY, by="bob", via="sidebar")
    assert (await asyncio.wait_for(task, 60)).verdict is Verdict.DENY


async def test_no_answer_by_the_deadline_is_a_denial(desk):
    decision = await asyncio.wait_for(desk.approve(question(deadline=0.05)), 60)
    assert (decision.verdict, decision.allowed, decision.by) == (Verdict.TIMEOUT, False, "deadline")


async def test_the_first_answer_stands(desk):
    request = question()
    task = await put(desk, request)
    desk.decide(request.id, Verdict.DENY, by="ann", via="cell")
    with pytest.raises(ApprovalAlreadyDecided, match="ann"):
        desk.decide(request.id, Verdict.ALLOW, by="bob", via="sidebar")
    assert (await asyncio.wait_for(task, 60)).verdict is Verdict.DENY


async def test_calling_the_run_off_is_no_denial(desk):
    request = question()
    task = await put(desk, request)
    desk.decide(request.id, Verdict.ABORTED, by="ann", via="cell")
    with pytest.raises(ApprovalAborted):
        await asyncio.wait_for(task, 60)


async def test_a_run_that_ends_takes_its_question_along(desk):
    request = question()
    task = await put(desk, request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.pending() == []
    with pytest.raises(ApprovalAlreadyDecided):
        desk.decide(request.id, Verdict.ALLOW, by="ann", via="cell")


async def test_many_questions_are_answered_in_any_order(desk):
    requests = [question() for _ in range(20)]
    tasks = [await put(desk, request) for request in requests]
    for number in reversed(range(20)):
        verdict = Verdict.ALLOW if number % 2 else Verdict.DENY
        desk.decide(requests[number].id, verdict, by="ann", via="cell")
    decisions = await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert [d.allowed for d in decisions] == [bool(n % 2) for n in range(20)]
    assert [d.approval_id for d in decisions] == [r.id for r in requests]


def test_an_answer_to_no_question_says_so(desk):
    with pytest.raises(ApprovalUnknown, match="app-nope"):
        desk.decide("app-nope", Verdict.ALLOW, by="ann", via="cell")


async def test_a_policy_says_no_at_once():
    decision = await PolicyApprover(SystemClock(), "nobody is here").approve(question())
    assert (decision.verdict, decision.by, decision.answer) == (Verdict.DENY, "policy", "nobody is here")


def test_nobody_allows_what_another_process_asked_once_its_deadline_is_over(desk, journal):
    asked = question()
    late = replace(asked, requested_at=asked.requested_at - timedelta(seconds=120))
    Mailbox(journal).post(late)
    with pytest.raises(ApprovalExpired):
        desk.decide(late.id, Verdict.ALLOW, by="ann", via="cell")
    assert Mailbox(journal).decision(late.id) is None
