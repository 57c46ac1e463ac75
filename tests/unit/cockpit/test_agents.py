"""What an agent's definition means for a run: the person's words first, and what somebody else wrote is asked."""

import asyncio
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.message_intent import (
    AnswerSaid,
    CommandSaid,
    SentenceSaid,
    SessionState,
    StatusAsked,
    StopSaid,
    TaskSaid,
    Unclear,
    understand,
    waits_for_nobody,
)
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.errors import AgentInvalid, AgentNotFound, UsageError
from kagura_kernel.domain.events import AnyEvent, ApprovalRequested, RunGranted, RunStarted
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import FakeBrain
from tests.support.redactors import shared_redactor
from tests.support.sample_run import SampleRun

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
    cockpit, project, definition, await_question
):
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


def test_a_service_that_is_not_the_persons_choice_is_asked_about(cockpit_with, project, await_question):
    (project / "mover.yaml").write_text("name: mover\nmodel: openai:gpt-5\n")
    cockpit = cockpit_with(FakeBrain(name="pydantic_ai"), settings=Settings(endpoint="ollama", model="qwen3:32b"))
    handle = cockpit.launch(RunRequest(task="Go.", project=project, agent=str(project / "mover.yaml")))
    question = await_question(cockpit)
    assert question.title == "Start this run as the definition of the agent 'mover' asks"
    assert "to another service than your settings name, which may cost more: openai." in question.detail
    cockpit.decide(question.id, allow=False, by="a test", via="test")
    assert asyncio.run(handle.wait()).status == "denied"


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("brain: pydantic_ai", {}),
        ("model: mistral:large", {}),
        ("model: ollama:qwen3", {}),
        ("model: openai:gpt-5", {"model": "mistral:small"}),
        ("model: openai:gpt-5", {"model": "openai:gpt-5"}),
    ],
)
def test_what_stays_with_the_persons_choice_or_on_this_machine_is_not(cockpit_with, project, line, typed):
    (project / "mover.yaml").write_text(f"name: mover\n{line}\n")
    cockpit = cockpit_with(FakeBrain(name="pydantic_ai"), settings=Settings(endpoint="mistral", model="small"))
    outcome, events = ended(cockpit, project=project, agent=str(project / "mover.yaml"), **typed)
    assert (outcome.status, of(ApprovalRequested, events)) == ("done", []), outcome.error


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


def test_an_answer_for_the_session_holds_for_these_very_words_alone(cockpit, project, definition, await_question):
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


RUN = SampleRun()
IDLE, NEW = SessionState(ran=True), SessionState()


def power(number: int = 1) -> ApprovalRequest:
    return RUN.request(f"app-{number}")


def question(number: int = 9, *options: str) -> ApprovalRequest:
    return RUN.request(f"app-{number}", kind=ApprovalKind.QUESTION, options=options)


def going(*waiting: ApprovalRequest) -> SessionState:
    return SessionState("run-1", waiting, ran=True)


def test_a_first_message_is_a_task_and_a_later_one_goes_on_from_it():
    assert understand(" Count the rows. ", NEW) == TaskSaid("Count the rows.", goes_on=False)
    assert understand("And the columns?", IDLE) == TaskSaid("And the columns?", goes_on=True)


@pytest.mark.parametrize("text", ["/kill last", "/status", "  /approve app-1 this session"])
def test_a_slash_is_a_command_whatever_runs(text):
    for standing in (NEW, IDLE, going(power())):
        assert understand(text, standing) == CommandSaid(text.strip()[1:])


@pytest.mark.parametrize("text", ["/", "/ what", "//", "/1"])
def test_a_slash_alone_is_no_command(text):
    assert isinstance(understand(text, NEW), TaskSaid)


@pytest.mark.parametrize("text", ["status", "Status", "STATUS!"])
def test_status_alone_asks_for_it(text):
    assert understand(text, going()) == StatusAsked()
    assert isinstance(understand(f"{text} of the orchids", IDLE), TaskSaid)


@pytest.mark.parametrize("text", ["stop", "Kill.", "abort"])
def test_stop_is_about_the_run_that_goes_on(text):
    assert understand(text, going(power())) == StopSaid("run-1")
    assert understand(text, IDLE) == Unclear(text, "nothing runs")


@pytest.mark.parametrize(
    ("text", "allow"), [("yes", True), ("OK!", True), ("allow", True), ("no", False), ("Deny.", False)]
)
def test_a_bare_yes_or_no_answers_the_only_approval_that_waits(text, allow):
    assert understand(text, going(power())) == AnswerSaid("app-1", allow)


def test_where_several_wait_a_yes_is_for_none_of_them():
    assert understand("yes", going(power(1), power(2))) == Unclear("yes", "which approval", ("app-1", "app-2"))


@pytest.mark.parametrize("text", ["yes", "No.", "ok", "/approve", "/deny"])
@pytest.mark.parametrize("standing", [NEW, IDLE, going()])
def test_where_none_waits_a_yes_or_a_no_is_no_task(text, standing):
    assert understand(text, standing) == Unclear(text, "nothing waits")


@pytest.mark.parametrize("text", ["yes", "no", "/approve", "/deny", "the blue one"])
def test_a_word_does_not_answer_what_was_asked_after_it(text):
    later = question() if text == "the blue one" else power()
    assert understand(text, SessionState("run-1", unseen=[later], ran=True)) == Unclear(
        text, "asked later", (later.id,)
    )


def test_a_word_is_about_what_was_asked_before_it_whatever_was_asked_since():
    standing = SessionState("run-1", [power(1)], [power(2), question()], ran=True)
    assert understand("yes", standing) == AnswerSaid("app-1", allow=True)


@pytest.mark.parametrize(("text", "allow"), [("/approve", True), ("/Deny", False)])
def test_a_command_alone_decides_the_only_approval_that_waits(text, allow):
    assert understand(text, going(power())) == AnswerSaid("app-1", allow)
    assert understand(text, going(power(), question())) == AnswerSaid("app-1", allow)
    assert understand(text, going(power(1), power(2))) == Unclear(text, "which approval", ("app-1", "app-2"))


def test_a_question_is_denied_by_a_command_alone_and_never_approved_without_an_answer():
    assert understand("/deny", going(question())) == AnswerSaid("app-9", allow=False)
    assert understand("/approve", going(question())) == Unclear("/approve", "which option", ("app-9",))


@pytest.mark.parametrize(
    ("text", "answer"), [("2", "blue"), ("BLUE", "blue"), ("3", "4"), ("4", "4"), ("mauve", "mauve")]
)
def test_an_answer_is_an_option_by_its_words_or_its_number_or_a_text(text, answer):
    said = understand(text, going(question(9, "red", "blue", "4")))
    assert said == AnswerSaid("app-9", allow=True, text=answer)


@pytest.mark.parametrize("text", ["0", "5", "9" * 5000])
def test_a_number_that_no_option_bears_is_no_answer(text):
    assert understand(text, going(question(9, "red", "blue", "4"))) == Unclear(text, "which option", ("app-9",))


def test_a_number_is_a_text_where_no_options_were_given():
    assert understand("7", going(question())) == AnswerSaid("app-9", allow=True, text="7")


@pytest.mark.parametrize("text", ["/etc/hosts is broken, fix it", "/tmp is full", "/etc/hosts", "/home/ann/x"])
def test_a_path_begins_a_task(text):
    assert understand(text, NEW) == TaskSaid(text, goes_on=False)
    assert not waits_for_nobody(text)


@pytest.mark.parametrize("text", ["/stauts", "/aply all of it", "/runs", "/kill\nrun-1"])
def test_a_slip_and_a_word_alone_are_commands(text):
    assert understand(text, NEW) == CommandSaid(text[1:])


@pytest.mark.parametrize(
    "text", ["yes please, and then push it", "I would say yes", "approve everything", "no idea", "yes\nyes", "да"]
)
def test_prose_that_sounds_like_a_yes_gives_no_power(text):
    assert not isinstance(understand(text, going(power())), AnswerSaid)


def test_a_text_answers_the_only_question_and_is_never_an_approval():
    assert understand("The blue one.", going(question())) == AnswerSaid("app-9", allow=True, text="The blue one.")
    assert understand("The blue one.", going(question(), power())) == AnswerSaid(
        "app-9", allow=True, text="The blue one."
    )
    assert understand("Blue.", going(question(8), question(9))) == Unclear(
        "Blue.", "which approval", ("app-8", "app-9")
    )


def test_a_no_is_a_word_to_a_question_and_a_denial_of_what_gives_power():
    assert understand("no", going(question())) == AnswerSaid("app-9", allow=True, text="no")
    assert understand("no", going(question(), power())) == AnswerSaid("app-1", allow=False)


def test_a_text_while_a_run_goes_on_is_said_to_that_run():
    assert understand("Use tabs.", going()) == SentenceSaid("run-1", "Use tabs.")
    assert understand("Use tabs.", going(power())) == SentenceSaid("run-1", "Use tabs.")


def test_nothing_means_nothing():
    assert understand(" \n", IDLE) == Unclear(" \n", "nothing said")


@pytest.mark.parametrize(
    "text", ["stop", " Yes! ", "no", "STATUS", "/kill", "/Kill run-1", "/approve app-1 once", "/deny app-1"]
)
def test_what_is_about_what_goes_on_waits_for_nobody(text):
    assert waits_for_nobody(text)


@pytest.mark.parametrize("text", ["", "stop the clock", "/apply", "/resume", "/killer", "resume", "blue", "/"])
def test_what_may_begin_or_change_something_waits_for_its_turn(text):
    assert not waits_for_nobody(text)


def test_resume_alone_is_a_command_unless_something_runs():
    assert understand("Resume", IDLE) == CommandSaid("resume")
    assert understand("resume the count", IDLE) == TaskSaid("resume the count", goes_on=True)
    assert understand("resume", going()) == Unclear("resume", "while it runs", ("run-1",))
    assert understand("resume", going(question())) == AnswerSaid("app-9", allow=True, text="resume")
