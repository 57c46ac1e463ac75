"""How often a run may ask a person, whatever it asks for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kagura_kernel.cockpit.desk import PolicyApprover
from kagura_kernel.domain.approvals import LIMIT, MAX_OPEN, ApprovalKind, ApprovalRequest, Approver, Verdict
from kagura_kernel.domain.errors import ApprovalDenied
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.asking import RecordedApprover
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runtime.router import Asker, require_allowed, use_approver
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.clock import FakeClock

NO, YES = Verdict.DENY, Verdict.ALLOW


@pytest.fixture
def journal(tmp_path: Path):
    journal = Journal.open(tmp_path, clock=FakeClock())
    yield journal
    journal.close()


def approver(journal: Journal, inner: Approver, run_id: str = "run-1", **more: object) -> RecordedApprover:
    return RecordedApprover(inner, Recorder(journal, FakeClock(), run_id, "ses-1"), FakeClock(), **more)


def request(number: int, kind: ApprovalKind = ApprovalKind.HOST_COMMAND) -> ApprovalRequest:
    return ApprovalRequest(f"app-{number}", "run-1", "ses-1", kind, "May I?", str(number), FakeClock().now())


KINDS = [kind for kind in ApprovalKind if kind is not ApprovalKind.NETWORK]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verdict", [NO, Verdict.TIMEOUT])
async def test_after_three_refusals_of_a_kind_nobody_is_asked_for_it_any_more(journal, kind, verdict):
    person = ScriptedApprover(*[verdict] * 30)
    asks = approver(journal, person)
    answers = [await asks.approve(request(number, kind)) for number in range(30)]
    assert len(person.requests) == 3
    assert [answer.by for answer in answers[3:]] == [LIMIT] * 27
    assert not any(answer.allowed for answer in answers)
    rows = [row.event.kind for row in journal.events()]
    assert rows.count("approval.requested") == 3
    assert rows.count("noted") == 1


async def test_the_brain_is_told_why_and_what_to_do(journal):
    with use_approver(approver(journal, ScriptedApprover(*[NO] * 4))):
        for number in range(4):
            decision = await Asker().ask(ApprovalKind.HOST_COMMAND, "Run it", str(number))
    with pytest.raises(ApprovalDenied, match=r"3 questions of the kind “host command” were refused.*go on without"):
        require_allowed(decision, "The host command")


async def test_another_kind_may_still_be_asked_for_and_a_yes_begins_anew(journal):
    person = ScriptedApprover(NO, NO, YES, NO, NO, NO, YES)
    asks = approver(journal, person)
    for number in range(6):
        await asks.approve(request(number))
    assert (await asks.approve(request(7, ApprovalKind.QUESTION))).allowed
    assert (await asks.approve(request(8))).by == LIMIT
    assert len(person.requests) == 7


async def test_what_works_for_a_run_wears_down_the_same_person(journal):
    person = ScriptedApprover(*[NO] * 9)
    own = approver(journal, person)
    children = [approver(journal, person, f"run-{n}", lineage=("run-1",)) for n in (2, 3, 4)]
    for number, asks in enumerate([*children, own, *children]):
        await asks.approve(request(number))
    assert len(person.requests) == 3
    other = approver(journal, person, "run-9")
    await other.approve(request(9))
    assert len(person.requests) == 4


async def test_only_so_many_of_a_kind_wait_at_once(journal):
    waiting: set[str] = set()

    class Silent:
        async def approve(self, request):
            waiting.add(request.id)
            await asyncio.get_running_loop().create_future()

    asks = approver(journal, Silent())
    tasks = [asyncio.ensure_future(asks.approve(request(number))) for number in range(MAX_OPEN + 5)]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert (len(waiting), len(done), len(left)) == (MAX_OPEN, 5, MAX_OPEN)
    for task in left:
        task.cancel()
    await asyncio.wait(left)
    again = asyncio.ensure_future(asks.approve(request(99)))
    await asyncio.sleep(0)
    assert "app-99" in waiting
    again.cancel()


async def test_a_policy_is_not_worn_down_and_what_was_earned_is_not_asked(journal):
    asks = approver(journal, PolicyApprover(FakeClock(), "nobody is here"))
    assert {(await asks.approve(request(number))).by for number in range(9)} == {"policy"}
    person = ScriptedApprover(NO, NO, NO, YES)
    asks = approver(journal, person, "run-2", answered=lambda one: one.id == "app-4")
    answers = [await asks.approve(request(number)) for number in range(5)]
    assert (answers[3].by, answers[4].allowed) == (LIMIT, True)
