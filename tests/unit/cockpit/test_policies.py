"""`--policy`: what a run may do, from reading alone to no box at all, and who may say so."""

import pytest

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.policy import PermissionMode, SandboxPolicyType
from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runtime.host_box import NO_WALLS
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.views.card import run_text
from kagura_kernel.views.run import RunView

WRITE = Ask("write_file", {"path": "one.txt", "content": "1"})
LIST = Ask("bash", {"command": "ls -A; echo here > made.txt"})
EXTERNAL = Settings(policy=SandboxPolicyType.EXTERNAL)
DANGER = Settings(policy=SandboxPolicyType.DANGER_FULL)


@pytest.fixture
def run(project):
    def launched(cockpit, task="do it", **options):
        handle = cockpit.launch(RunRequest(task, project=project, **options))
        view = RunView()
        handle.subscribe(view.apply)
        return handle.result(60), view

    return launched


def test_a_run_that_reads_changes_nothing_and_reaches_nothing(cockpit_with, run):
    brain = FakeBrain([WRITE, lambda results: results[-1].text])
    outcome, view = run(cockpit_with(brain), policy="read_only")
    assert "read-only" in outcome.text.lower()
    assert outcome.changes == ()
    assert "is read-only; only /tmp can be written" in brain.turns[0].system
    assert "There is no network." in brain.turns[0].system
    assert (view.granted.egress, view.granted.ask) == ((), False)


def test_a_definition_can_only_take_away(cockpit_with, run, project):
    for policy, settings, holds in (
        ("read_only", Settings(), "read-only"),
        ("workspace_write", Settings(policy=SandboxPolicyType.READ_ONLY), "read-only"),
    ):
        (project / "agent.yaml").write_text(f"name: looker\npolicy: {policy}\n")
        brain = FakeBrain(["Done."])
        run(cockpit_with(brain, settings=settings), agent=str(project / "agent.yaml"))
        assert holds in brain.turns[0].system


@pytest.mark.parametrize("policy", ["external_sandbox", "danger_full_access"])
def test_no_cell_takes_the_box_away(cockpit_with, run, policy):
    with pytest.raises(UsageError, match="only the settings of this machine's owner can"):
        run(cockpit_with(), policy=policy)


@pytest.mark.parametrize("option", [{"seal": True}, {"keep": True}, {"mode": "plan"}, {"net": ("pypi.org",)}])
def test_what_needs_a_box_is_refused_without_one(cockpit_with, run, option):
    with pytest.raises(UsageError, match="there is none: leave it out"):
        run(cockpit_with(settings=EXTERNAL), **option)


@pytest.mark.parametrize("settings", [EXTERNAL, DANGER])
def test_nobody_in_a_chat_gets_the_machine_itself(cockpit_with, run, settings):
    _, view = run(cockpit_with(settings=settings), started_by="slack:U123")
    assert view.box.backend == "fake"
    with pytest.raises(UsageError, match="takes the box away"):
        run(cockpit_with(settings=settings), started_by="slack:U123", policy=settings.policy.value)


@pytest.mark.parametrize("how", [{"started_by": "slack:U123"}, {"policy": "read_only"}])
def test_full_control_is_neither_a_chats_nor_that_of_who_wants_nothing_changed(cockpit_with, run, project, how):
    settings = Settings(permission_mode=PermissionMode.FULL_CONTROL)
    run(cockpit_with(FakeBrain([LIST, "Done."]), settings=settings), **how)
    assert not (project / "made.txt").exists()
    run(cockpit_with(FakeBrain([LIST, "Done."]), settings=settings))
    assert (project / "made.txt").exists()


def test_in_a_sandbox_from_outside_work_is_done_in_a_copy_and_every_card_says_so(cockpit_with, run, project):
    brain = FakeBrain([LIST, "Done."])
    outcome, view = run(cockpit_with(brain, settings=EXTERNAL))
    assert [(one.path, one.state) for one in outcome.changes] == [("made.txt", "proposed")]
    assert not (project / "made.txt").exists()
    assert "Your tools act on this machine itself" in brain.turns[0].system
    assert NO_WALLS in run_text(view)
    assert "made.txt  (this machine, exit 0)" in run_text(view)
    assert "(sandbox" not in run_text(view)
    cell, view = run(cockpit_with(settings=EXTERNAL), "print(open('data.csv').read())", language="python")
    assert cell.text == "a,b\n1,2\n\n"
    assert NO_WALLS in run_text(view)


def test_who_names_a_box_or_a_policy_gets_that_box(cockpit_with, run):
    for option in ({"box": "fake"}, {"policy": "workspace_write"}):
        _, view = run(cockpit_with(settings=DANGER), "pass", language="python", **option)
        assert view.box.backend == "fake"


def test_full_access_acts_on_the_project_itself(cockpit_with, run, project):
    brain = FakeBrain([LIST, WRITE, Ask("python", {"code": "open('two.txt', 'w').close()"}), "Done."])
    outcome, view = run(cockpit_with(brain, settings=DANGER))
    assert sorted(path.name for path in project.iterdir()) == ["data.csv", "made.txt", "one.txt", "two.txt"]
    assert outcome.changes == ()
    assert "There is no sandbox" in brain.turns[0].system
    assert NO_WALLS in run_text(view)
    assert "(sandbox" not in run_text(view)


def test_without_a_box_each_command_is_asked_for_where_the_settings_say_so(
    project, cockpit_with, await_question, backend
):
    backend.broken = "bwrap is not installed"
    cockpit = cockpit_with(
        FakeBrain([LIST, lambda results: results[-1].text]), settings=Settings(fallback_to_host=True)
    )
    handle = cockpit.launch(RunRequest("do it", project=project))
    view = RunView()
    handle.subscribe(view.apply)
    question = await_question(cockpit)
    assert question.kind is ApprovalKind.HOST_COMMAND
    assert "bwrap is not installed" in question.title
    assert not (project / "made.txt").exists()
    cockpit.decide(question.id, allow=True, by="ann", via="cell")
    outcome = handle.result(60)
    assert (outcome.status, outcome.text) == ("done", "data.csv")
    assert (project / "made.txt").exists()
    assert view.box.fallback == "bwrap is not installed"
    assert "each command runs on this machine if you allow it" in run_text(view)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"language": "python"}, ""),
        ({"headless": True}, "nobody can be asked here: run it in a notebook"),
        ({"keep": True}, "leave `--keep` out"),
        ({"started_by": "slack:U1"}, "not whoever writes from a chat"),
    ],
)
def test_nothing_falls_back_that_could_not_be_asked_for(cockpit_with, run, backend, how, why):
    backend.broken = "bwrap is not installed"
    outcome, _ = run(cockpit_with(settings=Settings(fallback_to_host=True)), "pass", **how)
    assert outcome.error_code == "ERR_SANDBOX_UNAVAILABLE"
    assert why in outcome.error


def test_nothing_falls_back_by_itself(cockpit_with, run, backend):
    backend.broken = "bwrap is not installed"
    outcome, _ = run(cockpit_with())
    assert outcome.error_code == "ERR_SANDBOX_UNAVAILABLE"
