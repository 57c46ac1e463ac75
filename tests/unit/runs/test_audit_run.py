"""An audit as a run: one question without tools, a report in every case, and an end that can be explained."""

import asyncio
from pathlib import Path

import pytest

from kagura_kernel.brain.provider import BrainDone, BrainText
from kagura_kernel.brain.replay import RecordingBrain, open_cassette
from kagura_kernel.cockpit.approval_desk import PolicyApprover
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost, BrainRefused, PluginRefused
from kagura_kernel.domain.events import (
    AnyEvent,
    Noted,
    PluginAudited,
    RunFinished,
    RunStarted,
    TextStreamed,
    TextWritten,
    TurnCounted,
)
from kagura_kernel.domain.plugins import AuditVerdict, CanaryStatus, Risk
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.audit import audit_prompt, ids_in, replayed_ids
from kagura_kernel.runs.audit_run import ABORT, RETRY, SILENCE_SECONDS, STATIC, AuditOrder, AuditRun
from kagura_kernel.runs.question_run import QuestionParts
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.brain import PER_ROUND, Hang
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.auditor import FakeAuditor, report, write_audit_cassette
from tests.support.redactors import shared_redactor
from tests.support.sample_plugin import SAMPLE_SOURCE, sample_plugin
from tests.support.sample_run import SampleRun


class Answers:
    """An approver that gives these answers in order."""

    def __init__(self, clock: FakeClock, *answers: str) -> None:
        self.asked: list[ApprovalRequest] = []
        self._clock = clock
        self._answers = list(answers)

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request)
        answer = self._answers.pop(0)
        return Decision(request.id, Verdict.ALLOW, "ada", "cell", self._clock.now(), answer)


class Stage:
    """A journal, a clock and a price."""

    def __init__(self, home: Path) -> None:
        self.clock = FakeClock()
        self.journal = Journal.open(home, clock=self.clock)
        self.told: list[AnyEvent] = []

    def run(
        self, brain: object = None, approver: object = None, *, source: str = SAMPLE_SOURCE, **more: object
    ) -> AuditRun:
        found, scan = sample_plugin(source)
        fields = {"brain_reason": "the test says so", "by": "ada", "model": "", **more}
        order = AuditOrder("run-1", "ses-1", found, scan, brain=brain, **fields)  # type: ignore[arg-type]
        parts = QuestionParts(self.journal, self.clock, lambda _usage, _model, _at: (0.002, "list 1"), BlindRedactor())
        return AuditRun(order, parts, approver or ScriptedApprover())  # type: ignore[arg-type]

    async def listen(self, run: AuditRun) -> AuditRun:
        async for event in run.events():
            self.told.append(event)
        return run

    async def silent(self, run: AuditRun, *, times: int = 1) -> AuditRun:
        """The same, with a brain that falls silent so often."""
        listening = asyncio.ensure_future(self.listen(run))
        for _ in range(times):
            # The brain's own pause and the run's limit.
            await self.clock.until_sleeping(1)
            await self.clock.advance(SILENCE_SECONDS)
        return await listening

    def of(self, kind: type) -> list[AnyEvent]:
        return [event for event in self.told if isinstance(event, kind)]


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path / "home")
    yield stage
    stage.journal.close()


async def test_an_honest_audit_from_its_first_row_to_its_last(stage):
    brain = FakeAuditor(report())
    run = await stage.listen(stage.run(brain))
    assert run.audit is not None
    assert (run.audit.risk, run.audit.canaries, run.audit.auditor) == (Risk.LOW, CanaryStatus.OK, "fake fake-1")
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.text) == ("done", "It does what it says.")
    started, finished = stage.told[0], stage.told[-1]
    assert isinstance(started, RunStarted)
    assert (started.flavour, started.task, started.brain) == ("audit", "Audit the plugin greeter 1.2.0", "fake")
    assert isinstance(finished, RunFinished)
    assert (finished.text, finished.turns, finished.reported_usd, finished.computed_usd) == (
        "It does what it says.",
        1,
        0.003,
        0.002,
    )
    kinds = [event.kind for event in stage.told if not isinstance(event, TextStreamed)]
    assert kinds == ["run.started", "text.written", "turn.counted", "plugin.audited", "run.finished"]
    [audited] = stage.of(PluginAudited)
    assert (audited.audit, audited.by) == (run.audit, "ada")
    [row] = stage.journal.events(run_id="run-1", kinds=("plugin.audited",))
    assert row.event == audited, "the report comes back from the journal as it was"


async def test_it_is_asked_once_without_tools_and_in_a_session_that_nothing_goes_on_from(stage):
    brain = FakeAuditor(report())
    await stage.listen(stage.run(brain, model="fake-2"))
    [turn] = brain.turns
    assert (tuple(turn.tools), turn.resume, turn.max_turns, turn.model) == ((), "", 1, "fake-2")
    assert "JSON" in turn.system
    assert len(ids_in(turn.task)) == 2
    assert not ids_in(turn.system)
    assert views.session_conversation(stage.journal, "ses-1", brain="fake").word == ""


async def test_a_brain_that_asks_for_a_tool_gets_none(stage):
    heard: list[ToolResult] = []

    async def grabs(turn):
        heard.append(await turn.call_tool(ToolCall("call-1", "bash", {"command": "id"})))
        yield BrainDone(text=report()(turn.task))

    brain = FakeAuditor()
    brain.run = grabs  # type: ignore[method-assign]
    run = await stage.listen(stage.run(brain))
    assert heard[0].is_error
    assert "without tools" in heard[0].text
    assert run.audit is not None
    assert run.audit.canaries is CanaryStatus.OK, "an answer that was never streamed counts as well"
    assert not [event for event in stage.told if event.kind.startswith("tool.")]


async def test_what_it_cost_is_in_the_ledger(stage):
    await stage.listen(stage.run(FakeAuditor(report())))
    [turn] = stage.of(TurnCounted)
    assert (turn.input_tokens, turn.computed_usd, turn.source) == (PER_ROUND.input_tokens, 0.002, "list 1")
    [row] = views.costs(stage.journal)
    assert (row.run_id, row.input_tokens, row.usd) == ("run-1", PER_ROUND.input_tokens, 0.003)
    assert views.runs(stage.journal)[0].flavour == "audit"


async def test_without_a_brain_the_scan_alone_counts_and_the_report_says_so(stage):
    run = await stage.listen(stage.run(None, brain_reason="there is no key and no sign-in"))
    assert run.audit is not None
    assert (run.audit.risk, run.audit.static_only) == (Risk.UNKNOWN, True)
    assert run.audit.remark == "No brain has looked: there is no key and no sign-in."
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.usage, run.outcome.cost.usd) == ("done", Usage(), None)
    assert stage.of(RunStarted)[0].brain == ""


async def test_a_plugin_that_is_too_large_is_not_shown_to_a_brain(stage):
    brain = FakeAuditor(report())
    run = await stage.listen(stage.run(brain, source="x = 1\n" * 100_000))
    assert brain.turns == []
    assert run.audit is not None
    assert run.audit.static_only
    assert "too large" in run.audit.remark


# ------------------------------------------------------------------- silence


async def test_silence_is_told_to_the_person_who_can_ask_once_more(stage):
    brain = FakeAuditor(Hang(), report())
    approver = Answers(stage.clock, RETRY)
    run = await stage.silent(stage.run(brain, approver))
    [request] = approver.asked
    assert (request.kind, request.options) == (ApprovalKind.QUESTION, (RETRY, STATIC, ABORT))
    assert "said nothing for 120 s" in request.detail
    assert run.audit is not None
    assert (run.audit.risk, run.audit.static_only) == (Risk.LOW, False)
    first, second = brain.turns
    assert ids_in(first.task).isdisjoint(ids_in(second.task)), "what was planted is new each time"
    assert [event.kind for event in stage.told if event.kind.startswith("approval.")] == [
        "approval.requested",
        "approval.decided",
    ]


async def test_silence_and_the_answer_static_only_leaves_the_scan(stage):
    run = await stage.silent(stage.run(FakeAuditor(Hang()), Answers(stage.clock, STATIC)))
    assert run.audit is not None
    assert (run.audit.risk, run.audit.static_only) == (Risk.UNKNOWN, True)
    assert "said nothing for 120 s" in run.audit.remark


async def test_silence_twice_is_asked_about_twice_and_abort_ends_it_without_a_report(stage):
    approver = Answers(stage.clock, RETRY, ABORT)
    run = await stage.silent(stage.run(FakeAuditor(Hang()), approver), times=2)
    assert len(approver.asked) == 2
    assert run.audit is None
    assert stage.of(PluginAudited) == []
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.error_code) == ("killed", "ERR_APPROVAL_ABORTED")


async def test_a_no_ends_it_and_no_answer_in_time_goes_on_with_the_scan(stage):
    run = await stage.silent(stage.run(FakeAuditor(Hang()), ScriptedApprover(Verdict.DENY)))
    assert run.audit is None
    other = await stage.silent(stage.run(FakeAuditor(Hang()), ScriptedApprover(Verdict.TIMEOUT)))
    assert other.audit is not None
    assert other.audit.static_only


async def test_where_nobody_can_be_asked_silence_leaves_the_scan_and_is_said(stage):
    approver = ScriptedApprover()
    run = await stage.silent(stage.run(FakeAuditor(Hang()), approver, headless=True))
    assert approver.requests == []
    assert run.audit is not None
    assert run.audit.static_only
    [note] = stage.of(Noted)
    assert "Nobody can be asked here" in note.text
    assert "said nothing for 120 s" in run.audit.remark


async def test_words_now_and_then_are_no_silence(stage):
    async def slow(turn):
        answer = report()(turn.task)
        for start in range(0, len(answer), 200):
            await stage.clock.sleep(SILENCE_SECONDS - 1)
            yield BrainText(answer[start : start + 200], partial=True)
        yield BrainText(answer)
        yield BrainDone(text=answer)

    brain = FakeAuditor()
    brain.run = slow  # type: ignore[method-assign]
    listening = asyncio.ensure_future(stage.listen(stage.run(brain)))
    while not listening.done():
        await stage.clock.advance(SILENCE_SECONDS - 1)
        await asyncio.sleep(0)
    assert (await listening).audit.risk is Risk.LOW


@pytest.mark.parametrize(
    ("error", "said"),
    [(BrainLost("fake", "its program ended"), "its program ended"), (BrainRefused("fake", "no key", 401), "no key")],
)
async def test_a_brain_that_is_lost_or_refused_is_asked_about_too(stage, error, said):
    approver = Answers(stage.clock, STATIC)
    run = await stage.listen(stage.run(FakeAuditor(error), approver))
    assert said in approver.asked[0].detail
    assert run.audit is not None
    assert said in run.audit.remark


async def test_where_the_policy_answers_silence_leaves_the_scan(stage):
    run = await stage.silent(stage.run(FakeAuditor(Hang()), PolicyApprover(stage.clock)))
    assert run.audit is not None
    assert run.audit.static_only


# ------------------------------------------------------------ what follows it


async def test_what_follows_gets_the_report_after_it_is_stored_and_gives_the_run_its_text(stage):
    async def then(audit, approver):
        assert stage.journal.events(run_id="run-1", kinds=("plugin.audited",))[0].event.audit == audit
        request = SampleRun().request("app-1", kind=ApprovalKind.PLUGIN)
        return f"{audit.plugin}: {(await approver.approve(request)).answer}"

    run = await stage.listen(stage.run(FakeAuditor(report()), Answers(stage.clock, "Enable"), then=then))
    assert run.outcome is not None
    assert run.outcome.text == "greeter: Enable"
    assert [event.kind for event in stage.told][-4:] == [
        "plugin.audited",
        "approval.requested",
        "approval.decided",
        "run.finished",
    ]


async def test_what_goes_wrong_afterwards_is_how_the_run_ends_and_the_report_is_kept(stage):
    async def then(_audit, _approver):
        raise PluginRefused("greeter", "was refused")

    run = await stage.listen(stage.run(FakeAuditor(report()), then=then))
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.error_code) == ("denied", "ERR_PLUGIN_REFUSED")
    assert run.audit is not None


async def test_a_report_that_is_known_is_not_asked_for_again(stage):
    first = await stage.listen(stage.run(FakeAuditor(report())))
    brain = FakeAuditor("never asked")
    stage.told.clear()
    run = await stage.listen(stage.run(brain, known=first.audit))
    assert brain.turns == []
    assert run.audit == first.audit
    assert [event.kind for event in stage.told] == ["run.started", "run.finished"]


# ------------------------------------------------------------- the end of it


async def test_a_stopped_audit_has_no_report_and_its_brain_has_ended(stage):
    brain = FakeAuditor(Hang())
    run = stage.run(brain)
    listening = asyncio.ensure_future(stage.listen(run))
    await stage.clock.until_sleeping(1)
    run.kill("ada")
    run.kill("bob")
    await listening
    assert run.audit is None
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.error_code) == ("killed", "ERR_RUN_KILLED")
    assert "ada" in run.outcome.error
    assert [task for task in asyncio.all_tasks() if "audit" in task.get_name()] == []


async def test_one_that_is_stopped_before_it_begins_asks_nobody(stage):
    brain = FakeAuditor(report())
    run = stage.run(brain)
    run.kill("ada")
    await stage.listen(run)
    assert brain.turns == []
    assert run.outcome is not None
    assert run.outcome.status == "killed"


async def test_an_audit_that_has_cost_what_it_may_is_stopped(stage):
    run = await stage.listen(stage.run(FakeAuditor(report()), budget_usd=0.001))
    assert run.audit is None
    assert run.outcome is not None
    assert run.outcome.status == "stopped"


async def test_an_answer_without_end_is_cut_off_and_rejected(stage):
    asked = 0

    async def flood(turn):
        nonlocal asked
        del turn
        while True:
            asked += 1
            yield BrainText("x" * 10_000, partial=True)

    brain = FakeAuditor()
    brain.run = flood  # type: ignore[method-assign]
    run = await stage.listen(stage.run(brain))
    assert run.audit is not None
    assert (run.audit.risk, run.audit.verdict) == (Risk.HIGH, AuditVerdict.REJECT)
    assert "longer than" in run.audit.remark
    assert asked < 40


async def test_ten_megabytes_at_once_are_not_kept(stage):
    run = await stage.listen(stage.run(FakeAuditor('{"riskLevel": "LOW", "x": "' + "y" * 10_000_000 + '"}')))
    assert run.audit is not None
    assert run.audit.risk is Risk.HIGH
    assert all(len(event.text) <= 2**18 for event in (*stage.of(TextWritten), *stage.of(TextStreamed)))


# ------------------------------------------------------------------ cassettes


async def test_a_recorded_audit_replays_with_what_was_planted_then(stage, tmp_path):
    cassette = tmp_path / "audit.jsonl"
    recorded = await stage.listen(stage.run(RecordingBrain(FakeAuditor(report()), cassette, BlindRedactor().fields)))
    brain, task = open_cassette(cassette)
    replayed = await stage.listen(stage.run(brain, recorded=task))
    assert recorded.audit is not None
    assert replayed.audit is not None
    assert replayed.audit.canaries is CanaryStatus.OK
    assert (replayed.audit.risk, replayed.audit.summary) == (recorded.audit.risk, recorded.audit.summary)
    assert replayed.audit.auditor == "replay fake-1"


async def test_a_cassette_of_other_files_is_refused_and_says_what_to_do(stage, tmp_path):
    cassette = tmp_path / "audit.jsonl"
    found, scan = sample_plugin()
    write_audit_cassette(cassette, found, scan)
    brain, task = open_cassette(cassette)
    assert (await stage.listen(stage.run(brain, recorded=task))).audit is not None
    run = await stage.listen(stage.run(brain, recorded=task, source=SAMPLE_SOURCE + "#"))
    assert run.audit is None
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.error_code) == ("failed", "ERR_UNSUPPORTED")
    assert "no audit of these files" in run.outcome.error


TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


@pytest.mark.parametrize(
    "source", [SAMPLE_SOURCE, SAMPLE_SOURCE + f'\nAPI_TOKEN = "{TOKEN}"\npassword = "Kd83!jskQ"\n']
)
def test_what_was_planted_is_still_found_in_a_task_without_secrets(source):
    redact = Redacting(shared_redactor()).value
    found, scan = sample_plugin(source)
    # What is planted, and where, is chance.
    for _ in range(25):
        prompt = audit_prompt(found, scan.findings)
        assert prompt is not None
        recorded = redact(prompt.task)
        assert TOKEN not in recorded
        assert set(map(str, replayed_ids(found, recorded))) == ids_in(prompt.task) - ids_in(source)


def test_a_report_keeps_the_ids_that_prove_it_was_read():
    found, scan = sample_plugin()
    for _ in range(25):
        prompt = audit_prompt(found, scan.findings)
        assert prompt is not None
        said = report()(prompt.task)
        assert ids_in(said)
        assert ids_in(Redacting(shared_redactor()).value(said)) == ids_in(said)
