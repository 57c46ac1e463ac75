"""A person's word before a toolset's tool is called."""

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.errors import ApprovalDenied, ApprovalRequired
from kagura_kernel.runtime.router import Asker, use_approver
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.tools.toolsets.foreign_tools import THIS_CALL, THIS_RUN, ToolQuestions


def questions(*patterns: str, remote: bool = False) -> ToolQuestions:
    return ToolQuestions("docs", patterns, Asker("run-1", "ses-1", FakeClock(), 120.0), remote=remote)


async def test_only_tools_that_are_meant_are_asked_about():
    asking = questions("write_*")
    with use_approver(None):
        await asking.require("read_page", {}, "call-1")
        with pytest.raises(ApprovalRequired, match="write_page of the toolset docs"):
            await asking.require("write_page", {}, "call-1")
    assert asking.asks("write_page")
    assert not asking.asks("read_page")


async def test_the_question_holds_exactly_what_would_be_sent():
    approver = ScriptedApprover(Verdict.ALLOW, answer=THIS_CALL)
    with use_approver(approver):
        await questions("*", remote=True).require("write", {"text": "ä\n" * 3000}, "call-7")
    (asked,) = approver.requests
    assert asked.kind is ApprovalKind.TOOL
    assert asked.title == "Call write of the toolset docs"
    assert asked.detail.count("ä") == 3000
    assert asked.arguments == {"toolset": "docs", "tool": "write", "arguments": {"text": "ä\n" * 3000}}
    assert asked.options == (THIS_CALL, THIS_RUN)
    assert "outside of the box" in asked.reason
    assert "Allowed for this run, it may be called with anything" in asked.reason
    assert asked.call_id == "call-7"
    assert asked.deadline == 120.0


async def test_a_word_for_this_call_holds_once_and_one_for_this_run_for_that_tool():
    once, run = questions("*"), questions("*")
    approver = ScriptedApprover(Verdict.ALLOW, Verdict.DENY, answer=THIS_CALL)
    with use_approver(approver):
        await once.require("write", {}, "")
        with pytest.raises(ApprovalDenied):
            await once.require("write", {}, "")
    approver = ScriptedApprover(Verdict.ALLOW, Verdict.DENY, answer=THIS_RUN)
    with use_approver(approver):
        await run.require("write", {"a": 1}, "")
        await run.require("write", {"a": 2}, "")
        with pytest.raises(ApprovalDenied):
            await run.require("delete", {}, "")
    assert [asked.title for asked in approver.requests] == [
        "Call write of the toolset docs",
        "Call delete of the toolset docs",
    ]
