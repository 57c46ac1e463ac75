"""A proposal at the end of a real run, answered or not, through the real desk."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.patience import wait_until
from tests.support.earned_trust import earn_trust

AwaitQuestion = Callable[[Cockpit], ApprovalRequest]
COMMIT = (Ask("bash", {"command": "git commit -q -m done", "host": True, "reason": "It is done."}), "Committed.")

pytestmark = [
    pytest.mark.real_clock,
    pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here"),
]


@pytest.fixture
def cockpit(cockpit_with: Callable[..., Cockpit], project: Path) -> Cockpit:
    """Git has done well in four runs, and something waits to be committed."""
    for words in (("init", "--quiet"), ("config", "user.name", "Ann"), ("config", "user.email", "ann@example.org")):
        subprocess.run(["git", *words], cwd=project, check=True)
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)
    cockpit = cockpit_with(FakeBrain(COMMIT))
    earn_trust(cockpit.journal, successes=4)
    return cockpit


def begun(cockpit: Cockpit, project: Path, await_question: AwaitQuestion) -> tuple[RunHandle, ApprovalRequest]:
    """A run that has committed, and the question that it ends with."""
    handle = cockpit.launch(RunRequest(task="Commit.", project=project, new_session=True))
    first = await_question(cockpit)
    assert first.kind is ApprovalKind.HOST_COMMAND
    cockpit.decide(first.id, allow=True, by="ann", via="cell")
    wait_until(lambda: any(request.kind is ApprovalKind.TRUST for request in cockpit.pending()))
    return handle, cockpit.pending()[0]


def state(cockpit: Cockpit) -> str:
    return next(one.state for one in cockpit.trust.reports() if one.category.name == "git")


@pytest.mark.parametrize(("allow", "after"), [(True, "graduated"), (False, "included")])
def test_the_answer_to_a_proposal_is_kept(cockpit, project, await_question, allow, after):
    handle, question = begun(cockpit, project, await_question)
    assert question.title == "Trust git from now on?"
    cockpit.decide(question.id, allow=allow, by="ann", via="sidebar")
    assert asyncio.run(handle.wait()).status == "done"
    assert state(cockpit) == after


def test_a_run_that_asks_about_trust_is_stopped_at_once_and_its_proposal_stands(cockpit, project, await_question):
    handle, question = begun(cockpit, project, await_question)
    handle.kill("ann")
    assert asyncio.run(handle.wait()).status == "done"
    assert cockpit.pending() == []
    assert {row.id: row.verdict for row in cockpit.approvals()}[question.id] == "aborted"
    assert state(cockpit) == "proposed"
    assert cockpit.trust.grant("git", by="ann", via="command").state == "graduated"


def test_what_is_locked_is_asked_in_every_run_whatever_was_said_for_the_session(cockpit_with, project, await_question):
    cockpit = cockpit_with()
    cell = RunRequest(task="true", language="bash", project=project, writable_root=True)
    for launch in (cell, RunRequest(task="Go.", project=project, writable_root=True)):
        handle = cockpit.launch(launch)
        cockpit.decide(await_question(cockpit).id, allow=True, by="ann", via="cell", answer="this session")
        assert asyncio.run(handle.wait()).status == "done"
    again = cockpit.launch(RunRequest(task="Go on.", project=project, writable_root=True))
    question = await_question(cockpit)
    assert question.options == ("this run",)
    cockpit.decide(question.id, allow=False, by="ann", via="cell")
    assert asyncio.run(again.wait()).status == "denied"
    # The person's own cell is asked as ever: once a session.
    assert asyncio.run(cockpit.launch(cell).wait()).status == "done"
    assert [report.standing.failure for report in cockpit.trust.reports() if report.category.name == "packages"] != [
        None
    ]
