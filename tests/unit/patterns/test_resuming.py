"""Which calls of a run that goes on are carried out, what is left of a budget, and which files are laid out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.patterns import Step
from kagura_kernel.patterns.steps import Guard, left_usd, restoring


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
