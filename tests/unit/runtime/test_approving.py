from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAborted, ApprovalDenied, ApprovalRequired
from kagura_kernel.runtime.router import Asker, current_approver, require_allowed, use_approver
from kagura_kernel.testing.approver import ScriptedApprover


def _decision(verdict: Verdict, answer: str = "") -> Decision:
    return Decision("app-1", verdict, "mia", "cell", datetime(2030, 1, 1, tzinfo=UTC), answer)


def test_without_an_approver_nobody_can_be_asked():
    assert current_approver() is None


async def test_a_question_to_nobody_is_required_not_denied():
    with pytest.raises(ApprovalRequired) as caught:
        await Asker().ask(ApprovalKind.HOST_COMMAND, "Run it", "ls", reason="it is needed")
    assert caught.value.reason == "it is needed"


async def test_the_approver_is_seen_inside_the_block_and_in_tasks_started_there():
    approver = ScriptedApprover()

    async def look():
        return current_approver()

    with use_approver(approver):
        inside = asyncio.create_task(look())
    assert await inside is approver
    assert current_approver() is None


async def test_two_runs_at_once_each_see_their_own_approver():
    first, second = ScriptedApprover(), ScriptedApprover()

    async def run(approver):
        with use_approver(approver):
            await asyncio.sleep(0)
            return current_approver()

    assert await asyncio.gather(run(first), run(second)) == [first, second]


async def test_a_request_says_who_asks_what_and_until_when():
    approver = ScriptedApprover(Verdict.ALLOW)
    asker = Asker("run-1", "ses-1", deadline=12)
    with use_approver(approver):
        decision = await asker.ask(
            ApprovalKind.QUESTION, "t", "d", reason="r", arguments={"a": 1}, call_id="call-1", options=("x", "y")
        )
    (request,) = approver.requests
    assert decision.approval_id == request.id
    assert (request.run_id, request.session_id, request.deadline) == ("run-1", "ses-1", 12)
    assert (request.reason, request.arguments, request.call_id) == ("r", {"a": 1}, "call-1")
    assert request.options == ("x", "y")


async def test_an_answer_to_another_question_opens_nothing():
    class Muddled(ScriptedApprover):
        async def approve(self, request):
            return replace(await super().approve(request), approval_id="app-of-another")

    with use_approver(Muddled(Verdict.ALLOW)), pytest.raises(ApprovalDenied):
        await Asker().ask(ApprovalKind.HOST_COMMAND, "t", "d")


@pytest.mark.parametrize("raises", [True, False])
async def test_called_off_is_an_error_of_its_own_however_it_is_told(raises):
    class Quiet(ScriptedApprover):
        async def approve(self, request):
            return replace(_decision(Verdict.ABORTED), approval_id=request.id)

    approver = ScriptedApprover(Verdict.ABORTED) if raises else Quiet()
    with use_approver(approver), pytest.raises(ApprovalAborted):
        await Asker().ask(ApprovalKind.HOST_COMMAND, "t", "d")


def test_only_allow_is_let_through():
    assert require_allowed(_decision(Verdict.ALLOW), "It").allowed
    for verdict in (Verdict.DENY, Verdict.TIMEOUT, Verdict.ABORTED):
        with pytest.raises(ApprovalDenied):
            require_allowed(_decision(verdict), "It")


def test_a_denial_says_who_and_with_which_remark():
    with pytest.raises(ApprovalDenied, match=r"mia said no \(not today\)"):
        require_allowed(_decision(Verdict.DENY, "not today"), "It")
    with pytest.raises(ApprovalDenied, match="nobody answered in time"):
        require_allowed(_decision(Verdict.TIMEOUT), "It")
