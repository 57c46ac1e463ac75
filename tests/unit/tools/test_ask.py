import pytest

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.errors import ApprovalAborted
from kagura_kernel.runtime.router import use_approver
from kagura_kernel.testing.approver import ScriptedApprover


async def test_the_answer_comes_back(hand):
    approver = ScriptedApprover(Verdict.ALLOW, answer="blue")
    with use_approver(approver):
        result = await hand("ask_user", question="Which colour?", options=["red", "blue"])
    assert (result.text, result.is_error, result.route) == ("blue", False, "")
    (request,) = approver.requests
    assert (request.kind, request.detail, request.options) == (
        ApprovalKind.QUESTION, "Which colour?", ("red", "blue"),
    )  # fmt: skip


async def test_with_nobody_there_the_brain_is_told_so(hand):
    result = await hand("ask_user", question="Which?")
    assert result.is_error
    assert result.text.startswith("Nobody can answer questions here")


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.TIMEOUT])
async def test_no_answer_is_an_error_result(hand, verdict):
    with use_approver(ScriptedApprover(verdict)):
        result = await hand("ask_user", question="Which?")
    assert result.is_error


async def test_calling_the_run_off_ends_it(hand):
    with use_approver(ScriptedApprover(Verdict.ABORTED)), pytest.raises(ApprovalAborted):
        await hand("ask_user", question="Which?")
