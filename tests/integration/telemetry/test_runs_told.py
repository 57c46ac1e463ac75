"""Runs, their journal and what a collector hears of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.assembly import load_settings, make_cockpit
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.telemetry.spans import span_id, trace_id
from kagura_kernel.telemetry.telemetry import Telemetry
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import kernel_environ
from tests.support.otlp_collector import OtlpCollector, attributes
from tests.support.task_brain import TaskBrain

AMPLE = 10.0
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
HOST = Ask("bash", {"command": "id", "host": True, "reason": "to see it"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "data.csv").write_text("a,b\n1,2\n")
    return root


@pytest.fixture
def cockpit_of(tmp_path: Path) -> Iterator[Callable[..., Cockpit]]:
    made: list[Cockpit] = []

    def make(scripts: dict[str, Any], **more: Any) -> Cockpit:
        cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[TaskBrain(scripts)], **more)
        made.append(cockpit)
        return cockpit

    yield make
    for cockpit in made:
        cockpit.close()


def launch(project: Path, task: str = "parent") -> RunRequest:
    return RunRequest(task=task, project=project, net=("none",))


def by_run(collector: OtlpCollector) -> dict[str, Any]:
    found = [(attributes(span.attributes).get("kagura.run.id"), span) for span in collector.spans]
    return {run_id: span for run_id, span in found if run_id}


def test_a_tool_that_a_model_made_up_is_told_without_its_name(cockpit_of, project, collector):
    telemetry = Telemetry("1")
    cockpit = cockpit_of({"parent": [Ask("no_such_tool_SENTINEL", {}), Ask("bash", {"command": "true"}), "."]})
    cockpit.journal.listen(telemetry.take)
    assert cockpit.launch(launch(project)).result(60).status == "done"
    telemetry.close(AMPLE)
    names = [span.name for span in collector.spans if span.name.startswith("execute_tool")]
    assert sorted(names) == ["execute_tool _OTHER", "execute_tool bash"]
    assert b"SENTINEL" not in collector.everything


def test_a_run_with_a_child_and_an_approval_is_one_trace(cockpit_of, project, collector):
    telemetry = Telemetry("1")
    cockpit = cockpit_of(
        {
            "parent": [Ask("delegate", {"task": "child"}), HOST, "."],
            "child": [Ask("bash", {"command": "wc -l data.csv"}), "Two."],
        }
    )
    cockpit.journal.listen(telemetry.take)
    handle = cockpit.launch(launch(project))
    wait_until(cockpit.pending)
    cockpit.decide(cockpit.pending()[0].id, allow=False, by="ada", via="cell")
    outcome = handle.result(60)
    telemetry.close(AMPLE)
    runs = by_run(collector)
    child = next(run_id for run_id in runs if run_id != outcome.run_id)
    assert {span.trace_id for span in collector.spans} == {trace_id(outcome.run_id).to_bytes(16, "big")}
    assert runs[child].parent_span_id == runs[outcome.run_id].span_id
    handed_on = next(span for span in collector.spans if span.name == "execute_tool delegate")
    assert [link.span_id for link in handed_on.links] == [runs[child].span_id]
    assert runs[outcome.run_id].span_id == span_id(outcome.run_id).to_bytes(8, "big")
    approval = next(span for span in collector.spans if span.name.startswith("approval "))
    assert attributes(approval.attributes)["kagura.approval.verdict"] == "deny"
    assert sum(span.name.startswith("chat ") for span in collector.spans) == 5
    assert b"wc -l" not in collector.everything


def test_every_turn_and_call_of_the_journal_is_a_span_and_none_overlaps_itself(cockpit_of, project, collector):
    telemetry = Telemetry("1")
    script = [Ask("bash", {"command": "sleep 0.05"}), Ask("bash", {"command": "sleep 0.05"}), "Done."]
    cockpit = cockpit_of({"parent": script})
    cockpit.journal.listen(telemetry.take)
    outcome = cockpit.launch(launch(project)).result(60)
    telemetry.close(AMPLE)
    rows = [row.event.kind for row in cockpit.journal.events(run_id=outcome.run_id)]
    turns = [span for span in collector.spans if span.name.startswith("chat ")]
    calls = [span for span in collector.spans if span.name.startswith("execute_tool ")]
    assert (len(turns), len(calls)) == (rows.count("turn.counted"), rows.count("tool.called"))
    steps = sorted([*turns, *calls], key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))
    for one, other in pairwise(steps):
        assert one.end_time_unix_nano <= other.start_time_unix_nano
    [root] = [span for span in collector.spans if not span.parent_span_id]
    assert all(root.start_time_unix_nano <= span.start_time_unix_nano for span in steps)
    assert all(span.end_time_unix_nano <= root.end_time_unix_nano for span in steps)


def test_a_secret_in_task_output_and_answer_does_not_get_out_with_content(cockpit_of, project, collector, tmp_path):
    redactor = Redactor(tmp_path / "rules")
    redactor.wait()
    telemetry = Telemetry("1", content=lambda text: redactor.redact(text).text)
    cockpit = cockpit_of(
        {f"use {SECRET}": [Ask("bash", {"command": f"echo GITHUB_TOKEN={SECRET}"}), f"It is {SECRET}."]},
        redactor=redactor,
    )
    cockpit.journal.listen(telemetry.take)
    cockpit.launch(launch(project, f"use {SECRET}")).result(60)
    telemetry.close(AMPLE)
    assert b"gen_ai.tool.call.arguments" in collector.everything
    assert b"REDACTED" in collector.everything
    assert SECRET.encode() not in collector.everything


@pytest.fixture
def real_cockpit(tmp_path: Path) -> Iterator[Callable[..., Cockpit]]:
    """Cockpits as a kernel makes them, with these settings as variables."""
    made: list[Cockpit] = []

    def make(**settings: str) -> Cockpit:
        environ = kernel_environ(tmp_path / "home", KAGURA_NET="none", **settings)
        made.append(make_cockpit(environ))
        return made[-1]

    yield make
    for cockpit in made:
        cockpit.close()


def cell(project: Path) -> RunRequest:
    return RunRequest(task="echo hello", language="bash", project=project, box="bubblewrap")


def test_the_setting_alone_tells_a_collector_of_real_runs(real_cockpit, project, collector):
    cockpit = real_cockpit(KAGURA_TELEMETRY="1")
    assert cockpit.launch(cell(project)).result(60).status == "done"
    [part] = cockpit.status().others
    assert (part.name, part.ok) == ("telemetry", True)
    cockpit.close()
    [root] = [span for span in collector.spans if span.name == "run_cell"]
    told = attributes(root.attributes)
    assert (told["kagura.run.status"], told["kagura.box.backend"]) == ("done", "bubblewrap")
    assert b"echo hello" not in collector.everything


def test_a_dead_collector_neither_breaks_a_run_nor_keeps_the_kernel_from_ending(real_cockpit, project, collector):
    collector.mood = "silent"
    cockpit = real_cockpit(KAGURA_TELEMETRY="1")
    assert cockpit.launch(cell(project)).result(60).status == "done"
    before = time.monotonic()
    cockpit.close()
    # The exporter by itself would wait ten seconds for each answer.
    assert time.monotonic() - before < AMPLE
    assert collector.spans == []


def test_without_the_setting_nothing_is_told(real_cockpit, project, collector):
    cockpit = real_cockpit()
    cockpit.launch(cell(project)).result(60)
    assert cockpit.status().others == ()
    cockpit.close()
    assert collector.requests == 0


def test_telemetry_that_cannot_be_sent_is_told_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    environ = {"HOME": str(tmp_path), "KAGURA_CONFIG": str(tmp_path / "none.toml"), "KAGURA_TELEMETRY": "1"}
    with pytest.raises(ConfigurationError, match="KAGURA_TELEMETRY: OTEL_EXPORTER_OTLP_PROTOCOL"):
        load_settings(environ)
