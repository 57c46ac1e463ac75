import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kagura_kernel.cockpit.approval_desk import PolicyApprover
from kagura_kernel.domain.approvals import LIMIT, MAX_OPEN, ApprovalKind, ApprovalRequest, Approver, Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.commands import OutputChunk, OutputListener
from kagura_kernel.domain.errors import (
    ApprovalAborted,
    ApprovalDenied,
    BrainLost,
    BudgetExhausted,
    RunKilled,
    SandboxDied,
    TurnsExhausted,
)
from kagura_kernel.domain.events import ResultShown, ToolCalled, ToolFinished
from kagura_kernel.domain.images import Image
from kagura_kernel.domain.nesting import is_deeper_than
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.runs.approvals import _PATIENCE, RecordedApprover
from kagura_kernel.runs.conversation import MAX_DEPTH, RecordedTools
from kagura_kernel.runs.exchange import Shown
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.run_end import ending_of
from kagura_kernel.runtime.router import Asker, require_allowed, use_approver
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.clock import FakeClock


@pytest.fixture
def journal(tmp_path: Path):
    journal = Journal.open(tmp_path / "state")
    yield journal
    journal.close()


@pytest.fixture
def recorder(journal: Journal) -> Recorder:
    return Recorder(journal, SystemClock(), "run-1", "ses-1")


class Bench:
    """What a run's hands take from it, with one tool function for every call."""

    def __init__(self, recorder: Recorder, use: Callable[..., Awaitable[ToolResult]]) -> None:
        self.tool_calls = 0
        self.told: list[BaseException] = []
        self.stop = self.told.append
        self.recorder, self.call = recorder, use
        self.approver = ScriptedApprover()
        self.parts = SimpleNamespace(clock=SystemClock())
        self.changes = SimpleNamespace(through=False)
        self.membrane = SimpleNamespace(scrubber=Scrubber(lambda: ()))
        self.learning = self.trusting = SimpleNamespace(used=lambda *_: None)
        self.redacting = self.checkpoints = self

    def hands(self, collect: Callable[[str], Awaitable[Shown]] | None = None) -> RecordedTools:
        context: Any = self
        return RecordedTools(context, context, SimpleNamespace(collect=collect) if collect else context)

    def offers(self, name: str) -> bool:
        return name == "bash"

    def private(self, _name: str, _arguments: object) -> tuple[str, ...]:
        return ()

    async def ready(self) -> None: ...

    async def words(self, text: str) -> str:
        return text

    async def before(self, _call: ToolCall) -> None: ...

    async def finished(self, _call: ToolCall, _result: ToolResult) -> None: ...


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return {"value": value}


async def echo(call: ToolCall, listen: OutputListener) -> ToolResult:
    listen(OutputChunk("stdout", "grü".encode()[:3]))
    listen(OutputChunk("stdout", "grü".encode()[3:]))
    return ToolResult(f"did {call.name}")


async def test_a_call_is_stored_before_it_runs_and_its_result_before_it_is_read(recorder, journal):
    stored: list[list[str]] = []

    async def use(call: ToolCall, listen: OutputListener) -> ToolResult:
        stored.append([row.event.kind for row in journal.events()])
        return await echo(call, listen)

    result = await Bench(recorder, use).hands().call(ToolCall("c1", "bash", {"command": "ls"}))
    assert result.text == "did bash"
    assert stored == [["tool.called"]]
    assert [row.event.kind for row in journal.events()] == ["tool.called", "tool.finished"]


async def test_the_record_of_a_call_says_whether_the_run_offers_such_a_tool(recorder, journal):
    hands = Bench(recorder, echo).hands()
    await hands.call(ToolCall("c1", "bash", {}))
    await hands.call(ToolCall("c2", "made_up", {}))
    events = [row.event for row in journal.events()]
    said = [(one.tool, one.offered) for one in events if isinstance(one, ToolCalled | ToolFinished)]
    assert said == [("bash", True)] * 2 + [("made_up", False)] * 2


async def test_a_character_cut_in_two_is_put_together(recorder):
    await Bench(recorder, echo).hands().call(ToolCall("c1", "bash", {}))
    recorder.end()
    texts = []
    while (event := await recorder.next()) is not None:
        if event.kind == "output.streamed":
            texts.append(event.text)
    assert "".join(texts) == "grü"


async def test_what_must_end_the_run_is_told_even_if_the_brain_hides_it(recorder):
    async def die(*_: object) -> ToolResult:
        raise SandboxDied("box-1", "it was killed")

    bench = Bench(recorder, die)
    with pytest.raises(SandboxDied):
        await bench.hands().call(ToolCall("c1", "bash", {}))
    assert [type(error) for error in bench.told] == [SandboxDied]


async def test_arguments_nested_very_deeply_are_refused_and_the_journal_stays_readable(recorder, journal):
    async def use(*_: object) -> ToolResult:
        pytest.fail("it was called")

    result = await Bench(recorder, use).hands().call(ToolCall("c1", "bash", nested(5000)))
    assert result.is_error
    assert "levels deep" in result.text
    assert [row.event.kind for row in journal.events(run_id="run-1")] == ["tool.called", "tool.finished"]
    assert journal.verify().rows == 2


@pytest.mark.parametrize(("depth", "deeper"), [(0, False), (MAX_DEPTH - 1, False), (MAX_DEPTH + 1, True), (9000, True)])
def test_depth_counts_lists_and_objects(depth, deeper):
    assert is_deeper_than(nested(depth), MAX_DEPTH) is deeper


async def test_what_a_program_showed_is_recorded_before_its_result_and_the_brain_reads_of_it(recorder, journal):
    picture = Image("image/png", 4, 3, b"bytes")

    async def shown(call_id: str) -> Shown:
        recorder.record(ResultShown, call_id=call_id, mime="text/html", data="<b>")
        return Shown("Shown to the person: text/html.", (picture,))

    async def use(call: ToolCall, listen: OutputListener) -> ToolResult:
        del listen
        return ToolResult(f"did {call.name}", shows=call.name == "python")

    hands = Bench(recorder, use).hands(shown)
    result = await hands.call(ToolCall("c1", "python", {"code": "x"}))
    assert result.text == "did python\nShown to the person: text/html."
    assert result.images == (picture,)
    assert [row.event.kind for row in journal.events()] == ["tool.called", "result.shown", "tool.finished"]
    assert (await hands.call(ToolCall("c2", "read_file", {}))).text == "did read_file"


NO, YES = Verdict.DENY, Verdict.ALLOW


@pytest.fixture
def journal_of_asking(tmp_path: Path):
    _PATIENCE.clear()  # a run of that name in an earlier test may not have been collected yet
    journal_of_asking = Journal.open(tmp_path, clock=FakeClock())
    yield journal_of_asking
    journal_of_asking.close()


def approver(journal_of_asking: Journal, inner: Approver, run_id: str = "run-1", **more: object) -> RecordedApprover:
    return RecordedApprover(inner, Recorder(journal_of_asking, FakeClock(), run_id, "ses-1"), FakeClock(), **more)


def request(number: int, kind: ApprovalKind = ApprovalKind.HOST_COMMAND) -> ApprovalRequest:
    return ApprovalRequest(f"app-{number}", "run-1", "ses-1", kind, "May I?", str(number), FakeClock().now())


KINDS = [kind for kind in ApprovalKind if kind is not ApprovalKind.NETWORK]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verdict", [NO, Verdict.TIMEOUT])
async def test_after_three_refusals_of_a_kind_nobody_is_asked_for_it_any_more(journal_of_asking, kind, verdict):
    person = ScriptedApprover(*[verdict] * 30)
    asks = approver(journal_of_asking, person)
    answers = [await asks.approve(request(number, kind)) for number in range(30)]
    assert len(person.requests) == 3
    assert [answer.by for answer in answers[3:]] == [LIMIT] * 27
    assert not any(answer.allowed for answer in answers)
    rows = [row.event.kind for row in journal_of_asking.events()]
    assert rows.count("approval.requested") == 3
    assert rows.count("noted") == 1


async def test_the_brain_is_told_why_and_what_to_do(journal_of_asking):
    with use_approver(approver(journal_of_asking, ScriptedApprover(*[NO] * 4))):
        for number in range(4):
            decision = await Asker().ask(ApprovalKind.HOST_COMMAND, "Run it", str(number))
    with pytest.raises(ApprovalDenied, match=r"3 questions of the kind “host command” were refused.*go on without"):
        require_allowed(decision, "The host command")


async def test_another_kind_may_still_be_asked_for_and_a_yes_begins_anew(journal_of_asking):
    person = ScriptedApprover(NO, NO, YES, NO, NO, NO, YES)
    asks = approver(journal_of_asking, person)
    for number in range(6):
        await asks.approve(request(number))
    assert (await asks.approve(request(7, ApprovalKind.QUESTION))).allowed
    assert (await asks.approve(request(8))).by == LIMIT
    assert len(person.requests) == 7


async def test_what_works_for_a_run_wears_down_the_same_person(journal_of_asking):
    person = ScriptedApprover(*[NO] * 9)
    own = approver(journal_of_asking, person)
    children = [approver(journal_of_asking, person, f"run-{n}", lineage=("run-1",)) for n in (2, 3, 4)]
    for number, asks in enumerate([*children, own, *children]):
        await asks.approve(request(number))
    assert len(person.requests) == 3
    other = approver(journal_of_asking, person, "run-9")
    await other.approve(request(9))
    assert len(person.requests) == 4


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (replace(request(1), withdrawn="its program waits no more"), "its program waits no more"),
        (request(1), "the run ended before an answer came"),
    ],
)
async def test_why_a_question_was_closed_is_kept_as_it_was(journal_of_asking, asked, why):
    class Silent:
        async def approve(self, _request):
            await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(approver(journal_of_asking, Silent()).approve(asked))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    *_, last = journal_of_asking.events(kinds=("approval.decided",))
    assert (last.event.verdict, last.event.answer) == ("aborted", why)


async def test_only_so_many_of_a_kind_wait_at_once(journal_of_asking):
    waiting: set[str] = set()

    class Silent:
        async def approve(self, request):
            waiting.add(request.id)
            await asyncio.get_running_loop().create_future()

    asks = approver(journal_of_asking, Silent())
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


async def test_a_policy_is_not_worn_down_and_what_was_earned_is_not_asked(journal_of_asking):
    asks = approver(journal_of_asking, PolicyApprover(FakeClock()))
    assert {(await asks.approve(request(number))).by for number in range(9)} == {"policy"}
    person = ScriptedApprover(NO, NO, NO, YES)
    asks = approver(journal_of_asking, person, "run-2", answered=lambda one: one.id == "app-4")
    answers = [await asks.approve(request(number)) for number in range(5)]
    assert (answers[3].by, answers[4].allowed) == (LIMIT, True)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RunKilled("run-1", "ann"), "killed"),
        (ApprovalAborted("a command"), "killed"),
        (BudgetExhausted(1, 1), "stopped"),
        (TurnsExhausted(3), "stopped"),
        (SandboxDied("box-1", "out of memory"), "failed"),
        (BrainLost("claude", "it ended"), "failed"),
    ],
)
def test_what_ended_a_run_decides_its_status_and_code(error, status):
    ending = ending_of(error)
    assert (ending.status, ending.error_code) == (status, error.code)  # type: ignore[attr-defined]
    assert ending.error_text == error.args[0]


def test_an_unforeseen_error_is_named_by_its_type_and_its_text_is_kept_back():
    ending = ending_of(KeyError("a secret"))
    assert (ending.status, ending.error_code) == ("failed", "ERR_INTERNAL")
    assert "KeyError" in ending.error_text
    assert "secret" not in ending.error_text
