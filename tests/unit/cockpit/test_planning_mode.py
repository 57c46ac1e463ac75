"""`--mode plan`: nothing leaves the box until a person lets the run carry its plan out."""

import pytest

from kagura_kernel.domain.policy import PermissionMode, WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.tools.carry_out import NO, YES
from kagura_kernel.views.card import run_text
from kagura_kernel.views.run import RunView

PLAN = Ask("carry_out", {"plan": "Write one.txt."})
WRITE = Ask("write_file", {"path": "one.txt", "content": "1"})
HOST = Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"})


def planned(cockpit, project, **options):
    return cockpit.launch(RunRequest("Plan it.", project=project, mode="plan", **options))


def test_a_run_that_only_plans_changes_nothing_and_asks_for_nothing_that_would(cockpit_with, project):
    cockpit = cockpit_with(
        [WRITE, HOST, lambda results: results[-1].text], settings=Settings(permission_mode=PermissionMode.FULL_CONTROL)
    )
    outcome = planned(cockpit, project).result(60)
    assert "this run only plans" in outcome.text
    assert [change.state for change in outcome.changes] == ["discarded"]
    assert cockpit.pending() == []


def test_what_it_changes_counts_once_a_person_has_read_the_plan_and_said_yes(cockpit_with, project, await_question):
    cockpit = cockpit_with([PLAN, WRITE, "Done."])
    handle = planned(cockpit, project)
    events = []
    handle.subscribe(events.append)
    question = await_question(cockpit)
    assert "Write one.txt." in question.detail
    cockpit.decide(question.id, allow=True, by="ann", via="cell", answer=YES)
    outcome = handle.result(60)
    assert [change.state for change in outcome.changes] == ["proposed"]
    (left,) = [event for event in events if event.kind == "plan.left"]
    assert (left.by, left.plan) == ("ann", "Write one.txt.")
    assert "ann said that the plan shall be carried out" in run_text(RunView().apply_all(events))


@pytest.mark.parametrize("answer", [NO, "write two.txt as well"])
def test_any_other_answer_keeps_it_planning(cockpit_with, project, await_question, answer):
    brain = FakeBrain([PLAN, WRITE, lambda results: results[0].text])
    cockpit = cockpit_with(brain)
    handle = planned(cockpit, project)
    cockpit.decide(await_question(cockpit).id, allow=True, by="ann", via="cell", answer=answer)
    outcome = handle.result(60)
    assert [change.state for change in outcome.changes] == ["discarded"]
    assert outcome.text.startswith("Not yet")
    assert (answer in outcome.text) is (answer != NO)
    assert "You only plan" in brain.turns[0].system


def test_where_nobody_can_be_asked_the_plan_is_the_answer(cockpit_with, project):
    cockpit = cockpit_with([PLAN, WRITE, lambda results: results[0].text])
    outcome = planned(cockpit, project, headless=True).result(60)
    assert [change.state for change in outcome.changes] == ["discarded"]


@pytest.mark.parametrize(("mode", "state"), [("default", "proposed"), ("acceptEdits", "applied")])
def test_other_names_are_those_of_write_modes(cockpit_with, project, mode, state):
    cockpit = cockpit_with([WRITE, "Done."], settings=Settings(write=WriteMode.NONE))
    outcome = cockpit.launch(RunRequest("Do it.", project=project, mode=mode)).result(60)
    assert [change.state for change in outcome.changes] == [state]
