"""A trap, its lesson, the plan that shows it, and estimates that hold: whole runs in real boxes."""

from typing import Any

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.events import (
    ApprovalRequested,
    MemoriesSeen,
    MemoriesShown,
    MemoryChanged,
    MemoryWritten,
    RunFinished,
    RunPlanned,
    RunStarted,
    RunVerified,
)
from kagura_kernel.domain.memory import CAME_FROM, FIXES, PREVENTS, Query, Tier, project_scope
from kagura_kernel.domain.patterns import BUFFER, Handoff, PlanTerms
from kagura_kernel.patterns.lessons import lessons, lessons_for
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.brain import Ask, FakeBrain
from tests.support.plugins import FakePlugins

pytestmark = pytest.mark.timeout(120)

TRAP = """\
#!/bin/bash
if [ -z "$REGION" ]; then echo "ERROR: REGION is not set" >&2; exit 3; fi
echo "$REGION" > deployed.txt
"""
PLAIN = Ask("bash", {"command": "bash deploy.sh staging"})
MENDED = Ask("bash", {"command": "REGION=eu bash deploy.sh staging"})
FIRST, SECOND, THIRD = (f"Deploy the {name} service to staging" for name in ("billing", "search", "mail"))
VERIFY = "grep -q eu deployed.txt"


def a_cent(*_: Any) -> tuple[float, str]:
    """What each turn costs."""
    return 0.01, "list 1"


@pytest.fixture
def run(runs, memory, project):
    (project / "deploy.sh").write_text(TRAP)

    async def listened(task: str, *script: Any, **more: Any):
        brain = FakeBrain([*script, "That is all."])
        ended = await runs.listened(
            runs.make(FakePlugins(), task, brain=brain, **{"memory": memory, "price": a_cent, **more})
        )
        ended.told = brain.turns[-1].system if brain.turns else ""
        ended.turns = brain.turns
        return ended

    return listened


def of(ended, kind):
    return [event for event in ended.events if isinstance(event, kind)]


async def test_a_trap_is_learned_shown_mended_and_the_third_run_costs_what_was_expected(run, runs, memory):
    first = await run(FIRST, PLAIN, verify=VERIFY)
    assert [event.passed for event in of(first, RunVerified)] == [False]
    assert of(first, RunPlanned) == []
    trapped, unverified = (
        next(one for one in lessons(memory, Query("")) if one.failure.kind == kind)
        for kind in ("command", "verification")
    )
    assert trapped.failure.trigger == "`bash deploy.sh staging` ended with 3"
    assert trapped.failure.said == "ERROR: REGION is not set"
    assert trapped.failure.fix == ""
    assert trapped.memory.tier is Tier.QUARANTINE

    second = await run(SECOND, MENDED, verify=VERIFY)
    [planned] = of(second, RunPlanned)
    assert {trapped.memory.id, unverified.memory.id} == set(planned.lessons)
    assert (planned.estimate.runs, planned.estimate.failed, planned.asked) == (1, 1, False)
    [shown] = of(second, MemoriesShown)
    assert any("REGION is not set" in one.summary for one in shown.memories)
    assert [event.passed for event in of(second, RunVerified)] == [True]

    third = await run(THIRD, MENDED, verify=VERIFY)
    [planned] = of(third, RunPlanned)
    [finished] = of(third, RunFinished)
    assert (planned.estimate.runs, planned.estimate.failed) == (2, 1)
    assert finished.estimated_usd == planned.estimate.usd
    assert finished.reported_usd <= planned.estimate.usd * (1 + BUFFER)
    known = {one.failure.kind: one for one in lessons_for(memory, THIRD, ("", project_scope(runs.project)))}
    assert known["command"].failure.fix == "`REGION=eu bash deploy.sh staging`"


async def test_a_lesson_is_joined_to_what_it_prevents_and_to_what_it_came_from(run, memory):
    ended = await run(FIRST, PLAIN, MENDED)
    [lesson] = lessons(memory, Query(""))
    [outcome] = lesson.prevents
    [fix] = lesson.fixes
    edges = {(edge.source, edge.type, edge.target) for edge in memory.explore(lesson.memory.id, depth=2).edges}
    assert {
        (lesson.memory.id, PREVENTS, outcome),
        (lesson.memory.id, CAME_FROM, outcome),
        (fix, FIXES, lesson.memory.id),
        (fix, CAME_FROM, lesson.memory.id),
    } <= edges
    written = [event.memory_id for event in of(ended, MemoryWritten) if event.how == "lesson"]
    assert written == [lesson.memory.id, fix]
    assert set(written) < set(ended.outcome.memories)
    memory.erase(outcome, cascade=True)
    assert lessons(memory, Query("")) == []


async def test_no_row_of_the_journal_holds_what_a_lesson_says(run, runs, memory):
    await run(FIRST, PLAIN, session="ses-one")
    ended = await run(SECOND, plan=PlanTerms(asked=True), headless=False, approver=ScriptedApprover(Verdict.ALLOW))
    [lesson] = lessons(memory, Query(""))
    rows = [row.event for row in runs.journal.events(run_id=ended.outcome.run_id)]
    assert any(isinstance(event, ApprovalRequested) and lesson.memory.id in event.detail for event in rows)
    assert "REGION is not set" not in repr(rows)
    assert "deploy.sh" not in repr([event for event in rows if not isinstance(event, RunStarted)])


async def test_a_lesson_that_nobody_trusts_is_told_to_the_person_alone(run):
    await run(FIRST, PLAIN)
    ended = await run(SECOND)
    assert "deploy.sh" not in ended.told
    assert of(ended, MemoriesSeen) == []
    assert len(of(ended, MemoriesShown)) == 1
    assert not of(ended, RunFinished)[0].untrusted


async def test_a_person_who_sees_the_plan_may_let_the_agent_read_its_lessons(run, memory):
    await run(FIRST, PLAIN, MENDED)
    approver = ScriptedApprover(Verdict.ALLOW, answer="0.50 with lessons", via="cell")
    ended = await run(SECOND, plan=PlanTerms(asked=True), headless=False, approver=approver)
    [lesson] = lessons(memory, Query(""))
    assert lesson.by_person
    assert {event.memory_id for event in of(ended, MemoryChanged)} == {lesson.memory.id, *lesson.fixes}
    assert {event.by for event in of(ended, MemoryChanged)} == {"script"}
    for words in ("`bash deploy.sh staging` ended with 3", "REGION is not set", "REGION=eu bash", "<lesson id="):
        assert words in ended.told
    assert [event.how for event in of(ended, MemoriesSeen)] == ["lesson"]
    assert ended.turns[0].budget_usd == 0.5
    assert not of(ended, RunFinished)[0].untrusted


async def test_runs_that_mend_a_failure_in_the_same_way_make_no_lesson_trusted(run, memory):
    await run(FIRST, PLAIN, MENDED, verify=VERIFY)
    await run(SECOND, MENDED, verify=VERIFY)
    ended = await run(THIRD, MENDED, verify=VERIFY, session="ses-other")
    [lesson] = lessons(memory, Query(""))
    assert not lesson.trusted
    promoted = {event.memory_id for event in of(ended, MemoryChanged) if event.change == "promoted"}
    assert not promoted & {lesson.memory.id, *lesson.fixes}
    assert "deploy.sh" not in (await run(FIRST)).told


async def test_a_lesson_of_a_child_is_its_first_parents(run, memory):
    await run(
        "Sweep the old releases away", Ask("bash", {"command": "./sweep.sh"}), handoff=Handoff(lineage=("run-0",))
    )
    [swept] = [one for one in lessons(memory, Query("")) if "sweep" in one.failure.line]
    assert swept.memory.source.run_id == "run-0"


async def test_what_a_person_forgot_stays_forgotten(run, memory):
    await run(FIRST, PLAIN)
    [lesson] = lessons(memory, Query(""))
    memory.forget(lesson.memory.id)
    ended = await run(SECOND, PLAIN)
    assert lessons(memory, Query("")) == []
    assert lesson.memory.id not in ended.outcome.memories


async def test_the_same_failure_again_is_counted(run, memory):
    await run(FIRST, PLAIN)
    await run(SECOND, PLAIN)
    [lesson] = lessons(memory, Query(""))
    assert lesson.seen == 2


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.TIMEOUT])
async def test_a_plan_that_is_not_agreed_to_starts_and_costs_nothing_and_leaves_nothing(run, memory, verdict):
    approver = ScriptedApprover(verdict)
    ended = await run(FIRST, PLAIN, plan=PlanTerms(asked=True), headless=False, approver=approver)
    assert (ended.outcome.status, ended.outcome.error_code) == ("denied", "ERR_APPROVAL_DENIED")
    assert [request.kind for request in approver.requests] == [ApprovalKind.PLAN]
    assert ended.turns == []
    assert not {"box.started", "turn.counted"} & {event.kind for event in ended.events}
    assert ended.outcome.memories == ()
    assert memory.counts().memories == 0


async def test_plans_that_were_not_agreed_to_are_no_runs_like_the_task(run):
    await run(FIRST, MENDED)
    for headless in (True, False):
        approver = ScriptedApprover(Verdict.DENY)
        terms = PlanTerms(asked=True, above_usd=0.0)
        ended = await run(SECOND, PLAIN, plan=terms, headless=headless, approver=approver)
        assert ended.outcome.status == "denied"
    third = await run(THIRD, MENDED)
    [planned] = of(third, RunPlanned)
    assert (planned.estimate.runs, planned.estimate.failed) == (1, 0)


async def test_nobody_agrees_to_more_than_an_administrator_has_locked(run):
    for answer, agreed in (("$5", 0.02), ("no budget", 0.02), ("$0.01", 0.01)):
        approver = ScriptedApprover(Verdict.ALLOW, answer=answer)
        terms = {"plan": PlanTerms(asked=True), "budget_usd": 0.02, "most_usd": 0.02}
        ended = await run(FIRST, PLAIN, headless=False, approver=approver, **terms)
        assert of(ended, RunPlanned)[-1].agreed_usd == agreed
