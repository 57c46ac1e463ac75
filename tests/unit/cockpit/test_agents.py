"""What an agent's definition means for a run: the person's words first, and what somebody else wrote is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.errors import AgentInvalid, AgentNotFound, UsageError
from kagura_kernel.domain.events import AnyEvent, ApprovalRequested, RunGranted, RunStarted
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import FakeBrain
from tests.support.redactors import shared_redactor

Make = Callable[..., Cockpit]
AwaitQuestion = Callable[[Cockpit], ApprovalRequest]

DEFINITION = """
name: mover
system_prompt: You move tables.
model: claude-sonnet-4-5
grants: {net: [data.example.org]}
budget: {usd: 3.0, turns: 7}
write: through
"""


@pytest.fixture
def definition(project: Path) -> Path:
    path = project / "mover.yaml"
    path.write_text(DEFINITION)
    return path


def ended(cockpit: Cockpit, **words: object) -> tuple[RunOutcome, list[AnyEvent]]:
    handle = cockpit.launch(RunRequest(task="Go.", **words))  # type: ignore[arg-type]
    outcome = asyncio.run(asyncio.wait_for(handle.wait(), 60))
    return outcome, [row.event for row in cockpit.journal.events(run_id=outcome.run_id)]


def of(kind: type, events: list[AnyEvent]) -> list:
    return [event for event in events if isinstance(event, kind)]


def test_what_somebody_elses_definition_wants_is_one_question_before_anything_starts(
    cockpit_with, project, definition, await_question
):
    cockpit = cockpit_with()
    handle = cockpit.launch(RunRequest(task="Go.", project=project, agent=str(definition)))
    question = await_question(cockpit)
    assert question.kind is ApprovalKind.LAUNCH
    assert question.title == "Start this run as the definition of the agent 'mover' asks"
    assert "May reach data.example.org." in question.detail
    assert "Writes its changes into the project as it goes" in question.detail
    cockpit.decide(question.id, allow=False, by="a test", via="test")
    outcome = asyncio.run(handle.wait())
    assert (outcome.status, outcome.error_code) == ("denied", "ERR_APPROVAL_DENIED")


@pytest.mark.parametrize("line", ["name: {}", "name: mover\nagents:\n  {0}: {{name: {0}}}", "name: mover\nmodel: {}"])
def test_a_definition_that_names_something_by_a_secret_is_refused_before_a_row(cockpit_with, project, line):
    token = "glpat-w4e9nvtr0yzx5pelufis"
    (project / "mover.yaml").write_text(line.format(token))
    cockpit = cockpit_with(redactor=shared_redactor())
    with pytest.raises(UsageError, match="looks like a secret") as refused:
        cockpit.launch(RunRequest(task="Go.", project=project, agent=str(project / "mover.yaml")))
    assert token not in refused.value.message
    assert cockpit.runs() == []


def test_what_a_file_of_servers_wants_is_not_blamed_on_the_agent(cockpit_with, project, await_question):
    servers = project / "servers.json"
    servers.write_text('{"mcpServers": {"far": {"url": "https://mcp.example.org/mcp"}}}')
    cockpit = cockpit_with()
    handle = cockpit.launch(RunRequest(task="Go.", project=project, mcp_config=servers))
    question = await_question(cockpit)
    assert question.title == "Start this run as the servers of servers.json ask"
    assert "May reach mcp.example.org:443." in question.detail
    cockpit.decide(question.id, allow=False, by="a test", via="test")
    assert asyncio.run(handle.wait()).status == "denied"


def test_an_answer_for_the_session_holds_for_these_very_words_alone(cockpit_with, project, definition, await_question):
    cockpit = cockpit_with()
    first = cockpit.launch(RunRequest(task="Go.", project=project, agent=str(definition)))
    question = await_question(cockpit)
    cockpit.decide(question.id, allow=True, by="a test", via="test", answer="this session")
    assert asyncio.run(first.wait()).status == "done"
    outcome, events = ended(cockpit, project=project, agent=str(definition))
    assert outcome.status == "done", outcome.error
    assert of(ApprovalRequested, events) == []
    assert of(RunGranted, events)[0].by == "this session"
    definition.write_text(DEFINITION.replace("You move tables.", "You move other tables."))
    again = cockpit.launch(RunRequest(task="Go.", project=project, agent=str(definition)))
    cockpit.decide(await_question(cockpit).id, allow=False, by="a test", via="test")
    assert asyncio.run(again.wait()).status == "denied"


def test_where_nobody_can_be_asked_such_an_agent_does_not_start(cockpit_with, project, definition):
    outcome, _ = ended(cockpit_with(), project=project, agent=str(definition), headless=True)
    assert outcome.status == "denied"


def test_a_persons_own_definition_is_taken_at_its_word(cockpit_with, tmp_path, project, definition):
    own = tmp_path / "home" / "agents"
    own.mkdir(parents=True)
    definition.rename(own / "mover.yaml")
    outcome, events = ended(cockpit_with(), project=project, agent="mover")
    assert outcome.status == "done", outcome.error
    assert of(ApprovalRequested, events) == []
    assert "data.example.org" in of(RunGranted, events)[0].egress
    assert of(RunStarted, events)[0].write_mode == WriteMode.THROUGH


def test_the_persons_words_come_before_the_definitions_and_these_before_the_settings(cockpit_with, project, definition):
    brain = FakeBrain()
    settings = Settings(model="small-1", budget_usd=2.0)
    cockpit = cockpit_with(brain, settings=settings)
    _, events = ended(cockpit, project=project, agent=str(definition), net=("none",), write_mode=WriteMode.NONE)
    assert of(ApprovalRequested, events) == []
    assert of(RunGranted, events)[0].egress == ()
    [turn] = brain.turns
    assert (turn.model, turn.max_turns) == ("claude-sonnet-4-5", 7)
    # Somebody's definition lowers what may be spent, and never raises it.
    assert turn.budget_usd == 2.0
    ended(
        cockpit,
        project=project,
        agent=str(definition),
        net=("none",),
        write_mode=WriteMode.NONE,
        model="claude-opus-4-1",
        budget_usd=9.0,
        max_turns=2,
    )
    assert (brain.turns[-1].model, brain.turns[-1].max_turns, brain.turns[-1].budget_usd) == ("claude-opus-4-1", 2, 9.0)


def test_the_agent_of_the_settings_is_the_one_of_cells_that_name_none(cockpit_with, project):
    brain = FakeBrain()
    cockpit = cockpit_with(brain, settings=Settings(agent="reviewer"))
    _, events = ended(cockpit, project=project)
    assert of(RunStarted, events)[0].write_mode == WriteMode.NONE
    assert "'reviewer'" in brain.turns[0].system


@pytest.mark.parametrize(
    ("text", "error"),
    [(None, AgentNotFound), ("name: Not Kebab\nskils: true\n", AgentInvalid), ("{", AgentInvalid)],
)
def test_what_is_no_agent_is_told_before_anything_starts(cockpit_with, project, text, error):
    path = project / "agent.yaml"
    if text is not None:
        path.write_text(text)
    cockpit = cockpit_with()
    with pytest.raises(error):
        cockpit.launch(RunRequest(task="Go.", project=project, agent=str(path)))
    assert cockpit.runs() == []
