"""The stage of a notebook that tells of days."""

import asyncio
import os
import time
from contextlib import closing
from functools import partial

import pytest

from kagura_kernel import assembly
from kagura_kernel.brain.provider import BrainDone
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, KaguraError
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events
from tests.support.story import Calendar, Person, Stage, stage

LOOK = Ask("bash", {"command": "id", "host": True, "reason": "to see who I am"})


@pytest.fixture
def calendar():
    return Calendar()


@pytest.fixture
def staged(tmp_path, calendar):
    """Begin a story with this person; its cockpit."""
    cockpits = []

    def begin(person):
        brain, join = FakeBrain([LOOK, "That is all."]), partial(Stage, person=person)
        home = tmp_path / "home"
        cockpits.append(fake_cockpit(home, backend=FakeBackend(), brains=[brain], clock=calendar, join=join))
        return cockpits[-1]

    yield begin
    for cockpit in cockpits:
        cockpit.close()


def test_a_calendar_stands_still_until_the_story_goes_on(calendar):
    first = calendar.now()
    assert (calendar.now(), calendar.monotonic()) == (first, 0.0)
    calendar.go_on(90)
    assert ((calendar.now() - first).total_seconds(), calendar.monotonic()) == (90.0, 90.0)


def test_another_day_begins_when_the_first_one_did(calendar):
    first = calendar.now()
    calendar.go_on(5000)
    calendar.next_day()
    calendar.next_day(4)
    assert (calendar.now().time(), (calendar.now() - first).days) == (first.time(), 5)


@pytest.mark.parametrize(("said", "verdict"), [("", "allow"), (None, "deny")], ids=["yes", "no"])
def test_a_person_answers_what_a_run_asks_where_nobody_sits(staged, project, said, verdict):
    person = Person("ada", lambda _request: said)
    cockpit = staged(person)
    cockpit.launch(RunRequest(task="Who are you?", project=project, headless=True)).result(60)
    [row] = cockpit.approvals()
    assert (row.verdict, row.by, row.via) == (verdict, "ada", "cell")
    assert [request.kind for request in person.asked] == [ApprovalKind.HOST_COMMAND]


def test_what_happens_in_a_story_has_its_dates(staged, project, calendar):
    cockpit = staged(Person("ada", lambda _request: ""))
    calendar.next_day(3)
    cockpit.launch(RunRequest(task="Who are you?", project=project)).result(60)
    [row] = cockpit.runs()
    assert row.started_at == calendar.now()


def test_a_process_on_stage_has_this_brain_alone_this_time_and_this_person(tmp_path, project, calendar, monkeypatch):
    for name, value in {"KAGURA_HOME": tmp_path / "home", "KAGURA_CONFIG": tmp_path / "none.toml"}.items():
        monkeypatch.setenv(name, str(value))
    person = Person("ada", lambda _request: "")
    stage(FakeBrain(["Done."], name="scripted"), person, calendar)
    try:
        cockpit = assembly.get_cockpit()
        assert isinstance(cockpit, Stage)
        assert cockpit is assembly.get_cockpit()
        assert cockpit.journal.clock is calendar
        with pytest.raises(KaguraError, match="scripted"):
            cockpit.launch(RunRequest(task="x", project=project, brain="nobody"))
    finally:
        assembly.use_cockpit(None)
    with closing(assembly.make_cockpit(os.environ)) as usual:
        assert type(usual) is Cockpit
        with pytest.raises(KaguraError) as raised:
            usual.launch(RunRequest(task="x", project=project, brain="nobody"))
        assert "scripted" not in str(raised.value)


async def test_a_step_can_depend_on_what_the_tools_said():
    brain = FakeBrain([Ask("echo", {"word": "a"}), lambda results: f"It said {results[-1].text!r}."])
    done = (await all_events(brain, a_turn(ToolLog())))[-1]
    assert isinstance(done, BrainDone)
    assert done.text == "It said 'echo: a'."


async def test_it_raises_what_stands_in_its_script():
    with pytest.raises(BrainLost):
        await all_events(FakeBrain(["Hi.", BrainLost("fake", "it was told to")]), a_turn(ToolLog()))


async def test_it_keeps_the_turns_it_was_given():
    brain = FakeBrain()
    turn = a_turn(ToolLog(), model="x")
    await all_events(brain, turn)
    assert brain.turns == [turn]


async def test_without_a_sign_in_it_does_not_think():
    brain = FakeBrain(ready=False)
    with pytest.raises(BrainNotConfigured):
        await all_events(brain, a_turn(ToolLog()))
    assert brain.turns == []


async def test_it_stops_when_the_turns_are_used_up():
    script = [Ask("echo", {"word": "a"})] * 5
    done = (await all_events(FakeBrain(script), a_turn(ToolLog(), max_turns=2)))[-1]
    assert isinstance(done, BrainDone)
    assert (done.stopped, done.turns) == ("turns", 2)


async def test_without_a_price_it_reports_none_and_knows_no_budget():
    brain = FakeBrain(usd_per_round=None)
    done = (await all_events(brain, a_turn(ToolLog(), budget_usd=0.0)))[-1]
    assert isinstance(done, BrainDone)
    assert done.reported_usd is None
    assert not brain.capabilities().budget


async def test_it_can_take_its_time_to_stop():
    run = asyncio.create_task(all_events(FakeBrain([Hang()], slow_to_stop=0.2), a_turn(ToolLog())))
    await asyncio.sleep(0.02)
    began = time.monotonic()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert time.monotonic() - began >= 0.19


async def test_it_can_hang_for_a_while_only():
    done = (await all_events(FakeBrain([Hang(0.01), "Awake."]), a_turn(ToolLog())))[-1]
    assert isinstance(done, BrainDone)
    assert done.text == "Awake."
