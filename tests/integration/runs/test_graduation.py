"""Runs in real boxes that push from the host to a repository beside the project: trust is earned, used and lost."""

import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, RunFinished, TrustChanged
from kagura_kernel.domain.patterns import Handoff
from kagura_kernel.journal.trust import TrustHistory
from kagura_kernel.testing.brain import Ask, FakeBrain
from tests.support.plugins import FakePlugins

from .conftest import Ended, Runs

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")

PUSH = (Ask("bash", {"command": "git push origin main", "host": True, "reason": "It is finished."}), "Pushed.")


class Calendar(SystemClock):
    """The machine's clock, some days on."""

    days = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(days=self.days)


class Person:
    """Says yes to everything, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request)
        return Decision(request.id, Verdict.ALLOW, "ann", "cell", request.requested_at)

    @property
    def kinds(self) -> list[ApprovalKind]:
        return [request.kind for request in self.asked]


class Story:
    """A project, its remote, and runs that push."""

    def __init__(self, runs: Runs, remote: Path) -> None:
        self.runs, self.remote = runs, remote
        self.person, self.calendar = Person(), Calendar()
        self.done = 0

    async def push(self, name: str = "fake", **more: object) -> Ended:
        """Something new lies in the project, and a run brings it out."""
        self.done += 1
        git(self.runs.project, "commit", "--quiet", "--allow-empty", "-m", f"change {self.done}")
        task = f"publish the {'abcdefghijkl'[self.done]} part"
        made = self.runs.make(
            FakePlugins(),
            task,
            brain=FakeBrain(PUSH, name=name),
            approver=self.person,
            clock=self.calendar,
            headless=False,
            **more,
        )
        return await self.runs.listened(made)

    @property
    def published(self) -> bool:
        """Whether the remote has what the project has."""
        return git(self.remote, "rev-parse", "main") == git(self.runs.project, "rev-parse", "main")


def git(where: Path, *words: str) -> str:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    return subprocess.run(["git", *who, *words], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def story(runs: Runs, tmp_path: Path) -> Story:
    remote = tmp_path / "remote.git"
    remote.mkdir()
    git(remote, "init", "--quiet", "--bare", "--initial-branch=main")
    git(runs.project, "init", "--quiet", "--initial-branch=main")
    git(runs.project, "remote", "add", "origin", str(remote))
    return Story(runs, remote)


def changes(ended: Ended) -> list[str]:
    return [event.change for event in ended.events if isinstance(event, TrustChanged)]


async def test_pushing_is_proposed_with_the_fifth_run_then_unasked_and_lost_with_one_failure(story):
    for number in range(4):
        ended = await story.push()
        assert story.published
        assert changes(ended) == ["succeeded"], number
        story.calendar.days += 2.0
    assert story.person.kinds == [ApprovalKind.HOST_COMMAND] * 4
    ended = await story.push()
    assert story.person.kinds[4:] == [ApprovalKind.HOST_COMMAND, ApprovalKind.TRUST]
    assert changes(ended) == ["succeeded", "proposed", "granted"]
    assert isinstance(ended.events[-1], RunFinished)

    ended = await story.push()
    assert story.published
    assert len(story.person.asked) == 6
    assert changes(ended) == ["applied"]
    [asked] = [event for event in ended.events if isinstance(event, ApprovalRequested)]
    [decided] = [event for event in ended.events if isinstance(event, ApprovalDecided)]
    assert (asked.arguments["command"], decided.via) == ("git push origin main", "graduation")

    for number, others in enumerate(({"handoff": Handoff(untrusted=True)}, {"name": "replay"}), 7):
        ended = await story.push(**others)
        assert story.published
        assert len(story.person.asked) == number
        assert changes(ended) == []

    shutil.move(story.remote, story.remote.with_name("gone.git"))
    ended = await story.push()
    assert len(story.person.asked) == 8
    assert changes(ended) == ["applied", "failed", "demoted"]
    shutil.move(story.remote.with_name("gone.git"), story.remote)
    await story.push()
    assert len(story.person.asked) == 9
    assert not TrustHistory(story.runs.journal).look()["git"].graduated
    assert story.runs.journal.verify()
