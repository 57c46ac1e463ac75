"""Programs hand work on: one session, many runs, one budget."""

from __future__ import annotations

import asyncio

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.testing.brain import Ask, Hang
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.testing.patience import eventually, wait_until
from tests.integration.dispatch.conftest import USD_PER_TURN, events

ENDLESS = [Ask("bash", {"command": "true"})] * 50


def test_every_task_gives_an_outcome_in_its_place(cockpit_with, project):
    cockpit = cockpit_with({"one": ["First."], "two": [RuntimeError("no")], "three": ["Third."]})
    outcomes = cockpit.session("nightly").dispatch(["one", "two", "three"], project=project).result(60)
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "done"]
    assert [outcome.text for outcome in outcomes] == ["First.", "", "Third."]
    assert len({outcome.session_id for outcome in outcomes}) == 3


async def test_a_cell_may_await_it(cockpit_with, project):
    cockpit = cockpit_with({"one": ["First."]})
    [outcome] = await cockpit.session().dispatch(["one"], project=project)
    assert outcome.text == "First."


def test_one_run_at_a_time_in_the_session_itself(cockpit_with, project):
    cockpit = cockpit_with({"one": ["First."]})
    session = cockpit.session("nightly")
    outcome = session.run("one", project=project, net=("none",)).result(60)
    assert (outcome.text, outcome.session_id) == ("First.", "nightly")


def test_all_of_them_together_spend_no_more_than_their_budget(cockpit_with, project):
    cockpit = cockpit_with({"endless": ENDLESS, "short": ["."]})
    limit = 12 * USD_PER_TURN
    dispatched = cockpit.session().dispatch(
        ["short", "endless", "endless", "endless"], budget_usd=limit, at_once=1, project=project
    )
    outcomes = dispatched.result(120)
    assert [outcome.status for outcome in outcomes] == ["done", "stopped", "stopped", "stopped"]
    costs = [outcome.cost.usd or 0.0 for outcome in outcomes]
    assert sum(costs) <= limit + 3 * USD_PER_TURN
    # What the first one left is shared by the others.
    assert costs[-1] > limit / 4 - USD_PER_TURN


def test_what_is_left_may_be_too_little_for_another_one(cockpit_with, project):
    cockpit = cockpit_with({"endless": ENDLESS})
    tasks = ["endless"] * 2
    first, second = cockpit.session().dispatch(tasks, budget_usd=0.001, at_once=1, project=project).result(60)
    assert first.status == "stopped"
    assert (second.status, second.error_code, second.run_id) == ("stopped", "ERR_BUDGET_EXHAUSTED", "")
    assert len(cockpit.runs()) == 1


def test_whoever_stops_waiting_ends_the_whole_set(cockpit_with, project):
    cockpit = cockpit_with({"hang": [Hang()]})

    async def waiting() -> None:
        dispatched = cockpit.session().dispatch(["hang"] * 3, at_once=2, project=project)
        task = asyncio.ensure_future(dispatched.wait())
        await eventually(lambda: len(dispatched.run_ids) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert dispatched.done

    asyncio.run(waiting())
    assert [row.status for row in cockpit.runs()] == ["killed", "killed"]


def test_a_set_that_is_stopped_says_so_of_each_task(cockpit_with, project):
    cockpit = cockpit_with({"hang": [Hang()], "short": ["."]})
    dispatched = cockpit.session().dispatch(["short", "hang", "hang"], at_once=1, project=project)
    wait_until(lambda: len(dispatched.run_ids) == 2)
    dispatched.kill("alice")
    assert [outcome.status for outcome in dispatched.result(60)] == ["done", "killed", "killed"]
    assert not [row for row in cockpit.runs() if row.live]


def test_a_context_is_shared_by_all_and_in_quarantine(cockpit_with, project):
    memory = FakeMemory()
    cockpit = cockpit_with({"one": ["."], "two": ["."]}, memory=memory)
    session = cockpit.session("nightly")
    outcomes = session.dispatch(["one", "two"], context="The colour is petrol.", project=project).result(60)
    [written] = cockpit.journal.events(kinds=("memory.changed",))
    kept = memory.reference(written.event.memory_id)
    assert (kept.text, kept.tier, kept.expires_at is not None) == ("The colour is petrol.", "quarantine", True)
    for outcome in outcomes:
        [seen] = [event for event in events(cockpit, outcome.run_id, "memory.seen") if event.how == "handoff"]
        assert [one.id for one in seen.memories] == [kept.id]
        assert outcome.memories


@pytest.mark.parametrize(
    ("tasks", "options", "why"),
    [
        ("one", {}, "a list of tasks"),
        ([" "], {}, "a list of tasks"),
        (["one"], {"budget_usd": 0}, "above 0"),
        (["one"], {"at_once": 0}, "from 1 to 64"),
        (["one"], {"workers": "http://h:1"}, "no address of workers"),
        (["one"], {"colour": "red"}, "takes no colour"),
        (["one"], {"context": "x"}, "no memory here"),
    ],
    ids=["text", "blank", "budget", "places", "workers", "unknown", "context"],
)
def test_what_cannot_be_understood_is_an_error_before_anything_begins(cockpit_with, project, tasks, options, why):
    cockpit = cockpit_with({})
    with pytest.raises(UsageError, match=why):
        cockpit.session().dispatch(tasks, project=project, **options)
    assert cockpit.runs() == []


def test_a_task_that_cannot_begin_does_not_hold_up_the_others(cockpit_with, project):
    cockpit = cockpit_with({"one": ["."]})
    outcomes = cockpit.session().dispatch(["one", "one"], agent="no-such-agent", project=project).result(60)
    assert [(outcome.status, outcome.error_code) for outcome in outcomes] == [("failed", "ERR_AGENT_NOT_FOUND")] * 2


def test_nothing_to_do_is_done_at_once(cockpit_with, project):
    assert cockpit_with({}).session().dispatch([], project=project).result(60) == []
