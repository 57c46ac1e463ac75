import asyncio

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAborted, EgressBusy, EgressDenied
from kagura_kernel.membrane.egress.hosts import Target
from kagura_kernel.membrane.egress.policy import MAX_ASKED, MAX_QUESTIONS, NEVER, THIS_SESSION, Answers, Asking
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually

A = Target("a.example", 443)
B = Target("b.example", 443)


def asking(approver, session: Answers | None = None) -> Asking:
    return Asking(
        approver, run_id="run-1", session_id="ses-1", session=session or Answers(), clock=FakeClock(), deadline=20
    )


async def test_without_anybody_to_ask_the_answer_is_no_and_says_how_to_grant():
    with pytest.raises(EgressDenied, match=r"nobody can be asked.*--net a\.example") as caught:
        await asking(None).require(A)
    assert caught.value.status == 403


async def test_while_something_holds_it_back_nobody_is_asked_and_nothing_of_it_is_remembered():
    approver, why = ScriptedApprover(Verdict.ALLOW), ["this run only plans"]
    asker = Asking(approver, held=lambda: "".join(why), clock=FakeClock())
    for _ in range(MAX_ASKED + 1):
        with pytest.raises(EgressDenied, match="is not granted, and this run only plans"):
            await asker.require(A)
    assert approver.requests == []
    why.clear()
    assert await asker.require(A) == "script, for this run"


async def test_the_question_names_the_host_and_port_and_what_can_be_answered():
    approver = ScriptedApprover(Verdict.ALLOW)
    assert await asking(approver).require(A) == "script, for this run"
    (request,) = approver.requests
    assert (request.kind, request.run_id, request.session_id) == (ApprovalKind.NETWORK, "run-1", "ses-1")
    assert "a.example:443" in request.title
    assert "a.example:443" in request.detail
    assert request.arguments == {"host": "a.example", "port": 443}
    assert request.options == ("this run", "this session", "never")
    assert request.deadline == 20


async def test_one_question_is_put_however_many_connections_wait():
    approver = ScriptedApprover(Verdict.ALLOW)
    asker = asking(approver)
    assert set(await asyncio.gather(*(asker.require(A) for _ in range(200)))) == {"script, for this run"}
    assert len(approver.requests) == 1


async def test_what_was_allowed_is_remembered_for_the_run_and_only_for_that_port():
    approver = ScriptedApprover(Verdict.ALLOW)
    asker = asking(approver)
    await asker.require(A)
    await asker.require(A)
    with pytest.raises(EgressDenied):
        await asker.require(Target("a.example", 80))
    assert len(approver.requests) == 2


async def test_what_was_allowed_for_the_run_is_asked_again_in_the_next():
    session = Answers()
    approver = ScriptedApprover(Verdict.ALLOW, Verdict.ALLOW)
    await asking(approver, session).require(A)
    await asking(approver, session).require(A)
    assert len(approver.requests) == 2


async def test_what_was_allowed_for_the_session_holds_in_its_next_run():
    session = Answers()
    approver = ScriptedApprover(Verdict.ALLOW, answer=THIS_SESSION)
    await asking(approver, session).require(A)
    assert await asking(None, session).require(A) == "script, for this session"


async def test_never_holds_in_the_next_run_too():
    session = Answers()
    approver = ScriptedApprover(Verdict.DENY, answer=NEVER)
    for _ in range(2):
        with pytest.raises(EgressDenied, match="said never"):
            await asking(approver, session).require(A)
    assert len(approver.requests) == 1


async def test_an_answer_of_words_never_widens_a_denial_or_an_allowance():
    session = Answers()
    with pytest.raises(EgressDenied):
        await asking(ScriptedApprover(Verdict.DENY, answer=THIS_SESSION), session).require(A)
    await asking(ScriptedApprover(Verdict.ALLOW, answer=NEVER), session).require(B)
    assert session.said == {}


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.TIMEOUT])
async def test_a_no_is_not_asked_again_in_the_same_run(verdict):
    approver = ScriptedApprover(verdict, Verdict.ALLOW)
    asker = asking(approver)
    for _ in range(3):
        with pytest.raises(EgressDenied, match="was not approved"):
            await asker.require(A)
    assert len(approver.requests) == 1


async def test_an_aborted_question_calls_the_run_off_for_everybody_who_waits():
    asker = asking(ScriptedApprover(Verdict.ABORTED))
    outcomes = await asyncio.gather(*(asker.require(A) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ApprovalAborted] * 3


async def test_the_answer_to_another_question_opens_nothing():
    class Confused:
        async def approve(self, request: ApprovalRequest) -> Decision:
            return Decision("app-other", Verdict.ALLOW, "x", "test", request.requested_at)

    with pytest.raises(EgressDenied, match="belongs to app-other"):
        await asking(Confused()).require(A)


class Silent:
    """Never answers; knows whether it is still being asked."""

    def __init__(self) -> None:
        self.open = 0

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.open += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.open -= 1
        raise AssertionError(request)


async def test_only_so_many_questions_are_open_at_once():
    approver = Silent()
    asker = asking(approver)
    waiting = [asyncio.create_task(asker.require(Target(f"h{n}.example", 443))) for n in range(MAX_QUESTIONS)]
    await eventually(lambda: approver.open == MAX_QUESTIONS)
    with pytest.raises(EgressBusy, match=f"{MAX_QUESTIONS} questions are open already") as caught:
        await asker.require(A)
    assert caught.value.status == 503
    assert approver.open == MAX_QUESTIONS
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_question_is_closed_when_nobody_waits_for_it_any_more():
    approver = Silent()
    waiting = asyncio.create_task(asking(approver).require(A))
    await eventually(lambda: approver.open == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await eventually(lambda: approver.open == 0)


def host(number: int) -> Target:
    return Target(f"h{number}.example", 443)


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.TIMEOUT])
async def test_after_three_refusals_in_a_row_nobody_is_asked_any_more(verdict):
    approver = ScriptedApprover(*[verdict] * 3, Verdict.ALLOW)
    asker = asking(approver)
    for number in range(3):
        with pytest.raises(EgressDenied, match="was not approved"):
            await asker.require(host(number))
    with pytest.raises(EgressDenied, match=r"3 hosts in a row.*no more questions in this run.*--net h3\.example"):
        await asker.require(host(3))
    with pytest.raises(EgressDenied, match="was not approved"):
        await asker.require(host(0))
    assert len(approver.requests) == 3


async def test_a_yes_in_between_lets_the_run_ask_on():
    approver = ScriptedApprover(Verdict.DENY, Verdict.DENY, Verdict.ALLOW, Verdict.DENY, Verdict.DENY, Verdict.ALLOW)
    asker = asking(approver)
    outcomes = await asyncio.gather(*(asker.require(host(number)) for number in range(6)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [EgressDenied, EgressDenied, str] * 2


async def test_one_run_asks_only_so_many_questions_and_remembers_the_answers():
    approver = ScriptedApprover(*[Verdict.ALLOW] * MAX_ASKED)
    asker = asking(approver)
    for number in range(MAX_ASKED):
        await asker.require(host(number))
    with pytest.raises(EgressDenied, match=f"asked {MAX_ASKED} questions"):
        await asker.require(A)
    assert await asker.require(host(0)) == "script, for this run"
    assert len(approver.requests) == MAX_ASKED


async def test_questions_that_were_withdrawn_count_too():
    approver = Silent()
    asker = asking(approver)
    for number in range(MAX_ASKED):
        waiting = asyncio.create_task(asker.require(host(number)))
        await eventually(lambda: approver.open == 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await eventually(lambda: approver.open == 0)
    with pytest.raises(EgressDenied, match=f"asked {MAX_ASKED} questions"):
        await asker.require(A)


async def test_a_question_that_nobody_waits_for_any_more_says_how_to_do_without_it():
    approver = ScriptedApprover(Verdict.ALLOW)
    await asking(approver).require(Target("pypi.org", 443))
    assert approver.requests[0].withdrawn == (
        "the program that asked waits no more. Grant it with: --net python-packages"
    )
