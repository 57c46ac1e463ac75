"""`--mode plan`: nothing leaves the box until a person lets the run carry its plan out."""

import asyncio
from datetime import UTC, datetime

import pytest

from kagura_kernel.cockpit.restart import going_on, stopped
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Verdict
from kagura_kernel.domain.memory import Query
from kagura_kernel.domain.policy import PermissionMode, WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.approvals import ONLY_PLANS, WhilePlanning
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.testing.patience import wait_until
from kagura_kernel.tools.standard import NO, YES
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


@pytest.mark.parametrize("kind", ApprovalKind)
async def test_of_all_kinds_of_questions_it_asks_only_those_that_open_nothing(kind):
    person, why = ScriptedApprover(Verdict.ALLOW, Verdict.ALLOW), [ONLY_PLANS]
    approver = WhilePlanning(person, FakeClock(), lambda: "".join(why))
    request = ApprovalRequest("app-1", "run-1", "ses-1", kind, "A question", "All of it.", datetime.now(UTC))
    decision = await approver.approve(request)
    assert decision.allowed is (kind in {ApprovalKind.PLAN, ApprovalKind.QUESTION})
    assert decision.allowed or "this run only plans" in decision.answer
    why.clear()
    assert (await approver.approve(request)).allowed


def test_what_the_settings_let_run_on_the_host_unasked_is_held_back_too(cockpit_with, project):
    settings = Settings(preapproved_host_commands=("ls",))
    cockpit = cockpit_with(
        [Ask("bash", {"command": "ls", "host": True}), lambda results: results[-1].text], settings=settings
    )
    assert "this run only plans" in planned(cockpit, project).result(60).text


def test_it_remembers_nothing_before_its_plan_is_carried_out(cockpit_with, project, await_question):
    memory = FakeMemory()
    kept = Ask("remember", {"text": "Tests need a crowbar."})
    cockpit = cockpit_with([kept, PLAN, kept, lambda results: results[0].text], memory=memory)
    handle = planned(cockpit, project)
    question = await_question(cockpit)
    assert not memory.recall(Query("crowbar"))
    cockpit.decide(question.id, allow=True, by="ann", via="cell", answer=YES)
    assert handle.result(60).text.startswith(f"Nothing was remembered: {ONLY_PLANS}")
    assert memory.recall(Query("crowbar"))


HALF = [WRITE, Hang()]


def stopped_half(cockpit, project, events, **options):
    """A run that planned, stopped on its way."""
    handle = planned(cockpit, project, **options)
    wait_until(lambda: events in [row.event.kind for row in cockpit.journal.events(run_id=handle.run_id)])
    asyncio.run(stopped(cockpit, handle.run_id, by="ann"))
    return handle.run_id


@pytest.mark.parametrize("memory", [FakeMemory(), None])
@pytest.mark.parametrize("asked", [None, RunRequest(mode="plan")])
def test_what_goes_on_in_its_place_plans_on(cockpit_with, project, memory, asked):
    cockpit = cockpit_with(HALF, memory=memory)
    run_id = stopped_half(cockpit, project, "tool.finished")
    request = going_on(cockpit.journal, run_id, "the second sheet", asked)
    assert (request.mode, request.resume) == ("plan", run_id if memory else None)
    after = cockpit.launch(request._replace(project=project))
    wait_until(lambda: "tool.finished" in [row.event.kind for row in cockpit.journal.events(run_id=after.run_id)])
    after.kill("the end of the test")
    assert [change.state for change in after.result(60).changes] == ["discarded"]


@pytest.mark.parametrize("mode", [None, "default"])
def test_a_resumed_run_plans_on_unless_its_cell_says_otherwise(cockpit_with, project, mode):
    cockpit = cockpit_with(HALF, memory=FakeMemory())
    resume = stopped_half(cockpit, project, "tool.finished")
    after = cockpit.launch(RunRequest("", resume=resume, mode=mode))
    after.wait_begun()
    (began,) = cockpit.journal.events(run_id=after.run_id, kinds=("run.started",))
    assert began.event.plans_only is (mode is None)
    after.kill("the end of the test")


def test_what_goes_on_from_a_plan_that_was_let_go_carries_it_out(cockpit_with, project, await_question):
    cockpit = cockpit_with([PLAN, WRITE, Hang()], memory=FakeMemory())
    handle = planned(cockpit, project)
    cockpit.decide(await_question(cockpit).id, allow=True, by="ann", via="cell", answer=YES)
    wait_until(lambda: len(cockpit.journal.events(run_id=handle.run_id, kinds=("tool.finished",))) > 1)
    asyncio.run(stopped(cockpit, handle.run_id, by="ann"))
    request = going_on(cockpit.journal, handle.run_id, "the second sheet", RunRequest(mode="plan"))
    assert request.mode is None
    after = cockpit.launch(request)
    after.wait_begun()
    (began,) = cockpit.journal.events(run_id=after.run_id, kinds=("run.started",))
    assert not began.event.plans_only
    after.kill("the end of the test")
