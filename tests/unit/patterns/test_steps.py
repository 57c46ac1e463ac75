"""A run's rows folded into steps: which are finished, which had begun, and which may have left their box."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

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
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.patterns import Step
from kagura_kernel.patterns.steps import EARLIER, Fold, Guard, bounded, left_usd, restoring, same, shorten

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


def step(command: str, call: str = "", **more: Any) -> Step:
    return Step(call or f"was-{command}", "bash", {"command": command}, f"result of {command}", **more)


def call(command: str) -> Step:
    return Step("now", "bash", {"command": command})


def answers(guard: Guard, *commands: str) -> list[str]:
    return [guard.judge(call(command)).what for command in commands]


def test_a_brain_that_starts_over_gets_what_was_done_in_its_order():
    guard = Guard([step("a"), step("b"), step("c")])
    assert answers(guard, "a", "b", "c", "d", "a") == ["done", "done", "done", "anew", "anew"]


def test_a_brain_that_has_gone_its_own_way_does_what_it_likes_in_the_box():
    guard = Guard([step("a"), step("b"), step("c")])
    assert answers(guard, "a", "x", "b", "c") == ["done", "anew", "anew", "anew"]


def test_one_that_remembers_may_miss_the_end_of_the_last_step_alone():
    assert answers(Guard([step("a"), step("b")], next=1), "b", "b") == ["done", "anew"]
    assert answers(Guard([step("a"), step("b")], next=1), "a", "b") == ["anew", "anew"]


def test_what_left_the_box_is_repeated_once_wherever_it_stands_and_carried_out_when_asked_for_again():
    guard = Guard([step("a"), step("push", outside=True), step("c"), step("push", outside=True, call="second")])
    assert answers(guard, "x", "push", "push", "push") == ["anew", "done", "done", "anew"]


def test_looking_is_always_done_anew_and_disturbs_no_order():
    looks = Step("was", "read_file", {"path": "f"}, "old", effects=False)
    guard = Guard([step("a"), looks, step("b")])
    assert guard.judge(call("a")).what == "done"
    assert guard.judge(Step("now", "read_file", {"path": "other"}, effects=False)).what == "anew"
    assert guard.judge(call("b")).what == "done"


def test_a_call_in_doubt_is_a_question_once():
    guard = Guard([], [step("push", outside=True), step("box")], in_order=False)
    assert answers(guard, "push", "push", "box") == ["doubtful", "anew", "anew"]


def test_what_was_finished_counts_before_what_is_in_doubt():
    guard = Guard([step("push", outside=True, call="a")], [step("push", outside=True, call="b")], in_order=False)
    assert answers(guard, "push", "push", "push") == ["done", "doubtful", "anew"]


def test_calls_whose_arguments_nobody_knows_are_never_the_same():
    hidden = {"text": "(not recorded: it is kept in the memory, where it can be erased)"}
    guard = Guard([Step("was", "remember", hidden, outside=True)])
    assert guard.judge(Step("now", "remember", hidden)).what == "anew"


def test_a_step_whose_arguments_nobody_knows_disturbs_no_order():
    hidden = {"text": "(not recorded: it is kept in the memory, where it can be erased)"}
    guard = Guard([step("a"), Step("was", "remember", hidden), step("b")])
    assert guard.judge(call("a")).what == "done"
    assert guard.judge(Step("now", "remember", hidden)).what == "anew"
    assert guard.judge(call("b")).what == "done"


COMMANDS = st.sampled_from(["a", "b", "c", "d"])


@given(
    done=st.lists(st.tuples(COMMANDS, st.booleans())),
    wanted=st.lists(COMMANDS, max_size=20),
    begin=st.integers(0, 5),
    in_order=st.booleans(),
)
def test_no_finished_step_outside_is_carried_out_before_it_was_answered(done, wanted, begin, in_order):
    steps = [step(command, f"was-{i}", outside=outside) for i, (command, outside) in enumerate(done)]
    guard = Guard(steps, in_order=in_order, next=begin)
    answered: set[str] = set()
    for command in wanted:
        judged = guard.judge(call(command))
        if judged.what == "done":
            assert judged.step is not None
            assert judged.step.call_id not in answered, "each step stands for one call"
            assert judged.step.arguments["command"] == command
            answered.add(judged.step.call_id)
        else:
            left = [one for one in steps if one.outside and one.arguments["command"] == command]
            assert all(one.call_id in answered for one in left)


@pytest.mark.parametrize(
    ("budget", "spent", "left"),
    [(None, None, None), (None, 5.0, None), (1.0, 0.25, 0.75), (1.0, 1.0, 0.0), (1.0, 2.0, 0.0), (1.0, 0.999, 0.0)],
)
def test_what_is_left_of_a_budget(budget, spent, left):
    assert left_usd(budget, spent) == left


def test_where_nobody_knows_what_was_spent_nothing_is_left():
    assert left_usd(1.0, None) == 0.0


def test_files_are_laid_where_the_project_is_as_it_was():
    changes = [
        FileChange("same", "modified", old_sha256="old", new_sha256="new"),
        FileChange("added", "added", new_sha256="new"),
        FileChange("mode", "modified", mode=0o755, old_sha256="old", new_sha256="old"),
        FileChange("gone", "deleted", old_sha256="old"),
        FileChange("applied", "modified", old_sha256="old", new_sha256="new"),
        FileChange("removed", "deleted", old_sha256="old"),
        FileChange("changed", "modified", old_sha256="old", new_sha256="new"),
        FileChange("made", "added", new_sha256="new"),
        FileChange("odd", "modified", old_sha256="old", new_sha256="new"),
        FileChange(".git/config", "modified", old_sha256="old", new_sha256="new", state="protected"),
    ]
    project = {
        "same": "old",
        "mode": "old",
        "gone": "old",
        "applied": "new",
        "changed": "other",
        "made": "theirs",
        "odd": "?",
    }
    found = restoring(changes, lambda path: project.get(path, ""))
    assert [change.path for change in found.lay] == ["same", "added", "mode", "gone"]
    assert found.there == ("applied", "removed")
    assert found.conflicts == ("changed", "made", "odd")
    assert found.lost == (".git/config",)
