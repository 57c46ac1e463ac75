"""An audit by the real Claude program, offline: what the model is offered and shown, and what becomes of its answer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events import AnyEvent
from kagura_kernel.domain.plugins import AuditVerdict, CanaryStatus, Risk
from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.audit import ids_in
from kagura_kernel.runs.audit_run import AuditOrder, AuditRun
from kagura_kernel.runs.prices import price
from kagura_kernel.runs.question_run import QuestionParts
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.auditor import report
from tests.support.model_script import Request, message_text, offered_tools, says
from tests.support.model_server import ModelServer
from tests.support.sample_plugin import SAMPLE_SOURCE, sample_plugin

KEY = "dummy-key-0123456789-never-real"


def prompt_in(request: Request) -> str:
    [message] = [message for message in request["messages"] if message["role"] == "user"]
    return message_text(message)


def answering(make: Callable[[str], str]) -> Callable[[Request], object]:
    return lambda request: says(make(prompt_in(request)))


@pytest.fixture
def journal(tmp_path: Path):
    journal = Journal.open(tmp_path / "home", clock=SystemClock())
    yield journal
    journal.close()


async def audited(journal: Journal, server: ModelServer, home: Path) -> tuple[AuditRun, list[AnyEvent]]:
    found, scan = sample_plugin()
    brain = ClaudeBrain({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}, home)
    order = AuditOrder("run-1", "ses-1", found, scan, brain=brain, brain_reason="a key", by="ada", headless=True)
    run = AuditRun(order, QuestionParts(journal, SystemClock(), price, BlindRedactor()), ScriptedApprover(Verdict.DENY))
    return run, [event async for event in run.events()]


async def test_the_model_is_shown_the_whole_plugin_has_no_tools_and_its_report_is_taken(journal, tmp_path):
    with ModelServer([answering(report(riskLevel="MEDIUM", verdict="review"))]) as server:
        run, events = await audited(journal, server, tmp_path / "state")
        [request] = [request for request in server.requests if not request.side and request.method == "POST"]

    assert offered_tools(request.body) == []
    assert "security auditor" in request.system
    prompt = prompt_in(request.body)
    assert [line for line in SAMPLE_SOURCE.split("\n") if line not in prompt] == []
    assert len(ids_in(prompt)) == 2
    assert run.audit is not None
    assert (run.audit.risk, run.audit.verdict, run.audit.canaries) == (
        Risk.MEDIUM,
        AuditVerdict.REVIEW,
        CanaryStatus.OK,
    )
    assert run.audit.auditor.startswith("claude ")
    assert (events[0].kind, events[-2].kind, events[-1].kind) == ("run.started", "plugin.audited", "run.finished")
    [cost] = views.costs(journal)
    assert cost.input_tokens > 0
    assert cost.usd is not None
    assert views.session_conversation(journal, "ses-1", brain="claude").word == ""


async def test_a_model_that_obeys_the_plugin_is_found_out(journal, tmp_path):
    with ModelServer([answering(report(injectionAttempts=[]))]) as server:
        run, _ = await audited(journal, server, tmp_path / "state")
    assert run.audit is not None
    assert (run.audit.risk, run.audit.verdict, run.audit.canaries) == (
        Risk.CRITICAL,
        AuditVerdict.REJECT,
        CanaryStatus.COMPROMISED,
    )
