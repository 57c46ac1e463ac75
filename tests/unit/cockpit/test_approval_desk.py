import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.cockpit.agents import child_intent, delegation_terms, handed_budget, handed_routing, workers_address
from kagura_kernel.cockpit.approval_desk import Desk, PolicyApprover
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import (
    ApprovalAborted,
    ApprovalAlreadyDecided,
    ApprovalExpired,
    ApprovalUnknown,
    UsageError,
)
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.patterns import DelegationTerms, Handoff
from kagura_kernel.domain.policy import PermissionMode, WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from kagura_kernel.patterns.dispatch import below
from kagura_kernel.runs.order import ChildOrder


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


async def test_what_is_stored_of_an_answer_is_redacted_wherever_it_was_asked(journal):
    desk = Desk(Mailbox(journal), SystemClock(), lambda text: text.replace("hunter2", "[REDACTED]"))
    ours, theirs = question(), question()
    task = await put(desk, ours)
    Mailbox(journal).post(theirs)
    for one in (ours, theirs):
        desk.decide(one.id, Verdict.ALLOW, by="ann", via="cell", answer="it is hunter2")
    assert (await asyncio.wait_for(task, 60)).answer == "it is [REDACTED]"
    assert {one.answer for one in Mailbox(journal).decisions([ours.id, theirs.id]).values()} == {"it is [REDACTED]"}


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


async def test_a_host_s_question_is_closed_without_a_word_about_the_run_s_end(desk, journal):
    request = replace(question(), kind=ApprovalKind.NETWORK, withdrawn="its program waits no more")
    task = await put(desk, request)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    decision = Mailbox(journal).decision(request.id)
    assert decision is not None
    assert decision.answer == "its program waits no more"


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
    decision = await PolicyApprover(SystemClock()).approve(question())
    assert (decision.verdict, decision.by) == (Verdict.DENY, "policy")
    assert decision.answer == "nobody can be asked here, so the policy says no"


def test_nobody_allows_what_another_process_asked_once_its_deadline_is_over(desk, journal):
    asked = question()
    late = replace(asked, requested_at=asked.requested_at - timedelta(seconds=120))
    Mailbox(journal).post(late)
    with pytest.raises(ApprovalExpired):
        desk.decide(late.id, Verdict.ALLOW, by="ann", via="cell")
    assert Mailbox(journal).decision(late.id) is None


amounts = st.one_of(st.none(), st.floats(0.01, 100))


@given(amounts, amounts)
def test_a_share_only_ever_lowers_a_budget(budget, share):
    found = handed_budget(budget, Handoff(budget_usd=share))
    assert found == min([one for one in (budget, share) if one is not None], default=None)
    assert handed_budget(budget, None) == budget


@given(st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_a_child_is_never_asked_about_less_than_its_parent(own_full, own_strict, handed_full, handed_strict):
    mode = PermissionMode.FULL_CONTROL if own_full else PermissionMode.DEFAULT
    settings = Settings(permission_mode=mode, strict_routing=own_strict, preapproved_host_commands=("ls", "git"))
    handoff = Handoff(lineage=("run-1",), full_control=handed_full, strict=handed_strict, preapproved=("git", "pwd"))
    routing = handed_routing(settings, handoff)
    assert (routing.mode is PermissionMode.FULL_CONTROL) == (own_full and handed_full)
    assert routing.strict == (own_strict or handed_strict)
    assert routing.preapproved == ("git",)
    assert handed_routing(settings, Handoff()).preapproved == ("ls", "git")
    assert handed_routing(replace(settings, safe_commands=("jq", "yq")), replace(handoff, safe=("jq",))).safe == ("jq",)


def test_what_a_child_hands_on_stays_in_its_process_whatever_the_settings_there_say():
    settings = Settings(workers="tcp://10.0.0.5:8786", delegate_depth=8)
    assert delegation_terms(settings, None, None).workers == "tcp://10.0.0.5:8786"
    assert delegation_terms(settings, "", None).workers == ""
    handed = Handoff(lineage=("run-1",), delegation=below(DelegationTerms(depth=2, workers="tcp://h:1")))
    assert delegation_terms(settings, None, handed) == DelegationTerms(2, 16, 4, "")


@pytest.mark.parametrize("text", ["", "tcp://10.0.0.5:8786", "tls://far.example.org:1", "tcp://[::1]:8786"])
def test_an_address_of_workers_is_taken_as_it_is(text):
    assert workers_address(text) == text


@pytest.mark.parametrize(
    "text", ["10.0.0.5:8786", "http://h:1", "tcp://h", "tcp://h:1/x", "tcp://u:p@h:1", "tcp:// h:1"]
)
def test_what_is_no_address_of_workers_is_refused(text):
    with pytest.raises(UsageError, match="no address of workers"):
        workers_address(text)


def test_an_intent_says_all_that_an_order_does():
    handoff = Handoff(
        lineage=("run-1",),
        net=("github",),
        credentials=("a:b",),
        budget_usd=0.5,
        write_mode="none",
        policy="read_only",
        command_timeout=7.0,
        idle_timeout=0.0,
    )
    order = ChildOrder(
        "do it", handoff, "run-1", "run-1.child-1", Path("/p"), agent="boss", box="docker", headless=True
    )
    intent = child_intent(order)
    assert (intent.task, intent.session, intent.project, intent.agent) == ("do it", "run-1.child-1", Path("/p"), "boss")
    assert (intent.net, intent.grants, intent.budget_usd) == (("github",), ("a:b",), 0.5)
    assert (intent.write_mode, intent.box, intent.headless) == (WriteMode.NONE, "docker", True)
    assert (intent.brain, intent.model, intent.verify, intent.image) == (None, None, None, None)
    assert (intent.policy, intent.command_timeout, intent.idle_timeout) == ("read_only", 7.0, 0.0)
