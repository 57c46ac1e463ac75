"""A run's rows folded into steps: which are finished, which had begun, and which may have left their box."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kagura_kernel.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    EgressDecided,
    Event,
    LeaseUsed,
    PluginCalled,
    RunGranted,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.patterns import Step
from kagura_kernel.patterns.steps import EARLIER, Fold, bounded, same, shorten

ABOUT: dict[str, Any] = {"run_id": "run-1", "session_id": "ses-1", "at": datetime(2026, 1, 5, tzinfo=UTC)}


def called(call: str = "call-1", tool: str = "bash", **arguments: Any) -> ToolCalled:
    return ToolCalled(**ABOUT, call_id=call, tool=tool, arguments=arguments)


def ended(call: str = "call-1", tool: str = "bash", route: str = "sandbox", text: str = "ok") -> ToolFinished:
    return ToolFinished(**ABOUT, call_id=call, tool=tool, text=text, route=route)


def asked(call: str = "call-1", approval: str = "app-1", subject: str = "host_command") -> ApprovalRequested:
    return ApprovalRequested(**ABOUT, approval_id=approval, subject=subject, title="?", detail="?", call_id=call)


def decided(verdict: str, approval: str = "app-1") -> ApprovalDecided:
    return ApprovalDecided(**ABOUT, approval_id=approval, verdict=verdict, by="ann", via="cell")


def egress(allowed: bool) -> EgressDecided:
    return EgressDecided(**ABOUT, connection_id="c", host="h", port=443, allowed=allowed, reason="so")


def used() -> LeaseUsed:
    return LeaseUsed(**ABOUT, lease_id="lea-1", provider="p", scope="s", method="POST", host="h", path="/", status=200)


def plugin() -> PluginCalled:
    return PluginCalled(**ABOUT, plugin="mail", module="mail", function="send")


def folded(*events: Event, **more: Any) -> Fold:
    return Fold("run-1", **more).add(events)


def test_steps_are_numbered_as_they_end_and_keep_their_run():
    fold = folded(called("a"), called("b"), ended("b", text="second"), ended("a", text="first"), called("c"))
    assert [(step.number, step.call_id, step.result, step.run_id) for step in fold.finished] == [
        (1, "b", "second", "run-1"),
        (2, "a", "first", "run-1"),
    ]
    assert list(fold.begun) == ["c"]


def test_of_several_at_once_the_order_is_that_of_their_calls():
    fold = folded(called("a"), called("b"), called("c"), ended("c"), ended("a"), ended("b"))
    assert [step.call_id for step in fold.in_order()] == ["a", "b", "c"]


def test_an_earlier_result_is_no_step_of_this_run():
    fold = folded(called(), ended(route=EARLIER))
    assert (fold.finished, fold.begun) == ([], {})


def test_tools_that_look_have_no_effects_and_are_never_in_doubt():
    fold = folded(called(tool="read_file"), called("b", tool="read_file"), ended(tool="read_file"))
    assert [step.effects for step in fold.finished] == [False]
    assert fold.doubtful() == ()
    assert folded(called(tool="peek"), looks=("peek",)).doubtful() == ()


@pytest.mark.parametrize(
    ("between", "route", "outside"),
    [
        ((), "sandbox", False),
        ((), "host", True),
        ((asked(), decided("allow")), "", True),
        ((asked(), decided("deny")), "", False),
        ((asked(), decided("timeout")), "", False),
        ((asked(subject="question"), decided("allow")), "", False),
        ((plugin(),), "sandbox", True),
        ((used(),), "sandbox", True),
        ((egress(allowed=True),), "sandbox", True),
        ((egress(allowed=False),), "sandbox", False),
    ],
    ids=["box", "host", "allowed", "denied", "unanswered", "question", "plugin", "lease", "network", "refused"],
)
def test_a_finished_step_has_left_its_box_when_a_row_says_so(between, route, outside):
    [step] = folded(called(), *between, ended(route=route)).finished
    assert step.outside is outside


def test_what_crossed_before_a_call_does_not_count_for_it():
    [step] = folded(plugin(), used(), egress(allowed=True), called(), ended()).finished
    assert not step.outside


@pytest.mark.parametrize(
    ("rows", "more", "outside"),
    [
        ((called(),), {}, False),
        ((called(host=True),), {}, False),
        ((called(host=True), asked()), {}, False),
        ((called(host=True), asked(), decided("deny")), {}, False),
        ((called(host=True), asked(), decided("allow")), {}, True),
        ((called(), asked(), decided("allow")), {}, True),
        ((called(host=True),), {"full_control": True}, True),
        ((called(),), {"full_control": True}, True),
        ((called(),), {"plugins": True}, True),
        ((RunGranted(**ABOUT, credentials=("p:s",)), called()), {}, True),
        ((RunGranted(**ABOUT), called()), {}, False),
        ((called(tool="write_file"),), {"plugins": True}, False),
        ((called(), plugin()), {}, True),
        ((called(tool="delegate"),), {}, True),
    ],
)
def test_a_step_that_did_not_end_is_in_doubt_outside_when_it_may_have_got_there(rows, more, outside):
    [step] = folded(*rows, **more).doubtful()
    assert step.outside is outside


def test_two_calls_are_the_same_by_their_tool_and_arguments_whatever_the_reason():
    one = Step("a", "bash", {"command": "ls", "timeout": 5, "reason": "to look"})
    assert same(one, Step("b", "bash", {"timeout": 5, "command": "ls", "reason": "again"}))
    assert not same(one, Step("b", "bash", {"command": "ls", "timeout": 6}))
    assert not same(one, Step("b", "python", {"command": "ls", "timeout": 5}))
    assert not same(Step("a", "t", {"x": 1}), Step("a", "t", {"x": "1"}))


def test_a_shortened_text_keeps_its_ends():
    text = "begin" + "x" * 1000 + "finish"
    short = shorten(text, 100)
    assert len(short) <= 100
    assert short.startswith("begin")
    assert short.endswith("finish")
    assert shorten("as it is", 100) == "as it is"


def test_many_steps_are_all_kept_and_the_later_ones_in_more_words():
    steps = [
        Step(f"c{i}", "bash", {"command": "x" * 5000, "n": i, "host": True, "list": ["a" * 5000]}, "y" * 5000, number=i)
        for i in range(500)
    ]
    kept = bounded(steps)
    assert [step.number for step in kept] == list(range(500))
    assert len(kept[-1].result) > len(kept[0].result)
    assert kept[0].arguments["host"] is True
    assert sum(len(step.result) + len(str(dict(step.arguments))) for step in kept) < 200_000
