"""The real SDK and the real exporter, towards a collector on this machine."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel import assembly
from kagura_kernel.assembly import load_settings, make_cockpit
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.domain.settings import Settings
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.membrane.credentials.secret import Secret, live_secrets
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.telemetry import telemetry as room
from kagura_kernel.telemetry.spans import span_id, trace_id
from kagura_kernel.telemetry.telemetry import Telemetry, endpoint, problems
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import kernel_environ
from tests.support.otlp_collector import attributes
from tests.support.sample_run import SampleRun
from tests.support.task_brain import TaskBrain

RUN = SampleRun()

# What closing may take on a busy machine beyond what it was allowed.
AMPLE = 10.0


def a_run(telemetry: Telemetry) -> None:
    called, finished = RUN.tool()
    for event in (RUN.started(), RUN.boxed(), RUN.counted(), called, finished, RUN.finished()):
        telemetry.take(event)


def test_closing_sends_what_waits(collector):
    telemetry = Telemetry("1.2.3")
    a_run(telemetry)
    telemetry.close(AMPLE)
    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {"invoke_agent", "chat m-1", "execute_tool bash"}
    assert int.from_bytes(spans["invoke_agent"].trace_id, "big") == trace_id("run-1")
    assert int.from_bytes(spans["invoke_agent"].span_id, "big") == span_id("run-1")
    assert attributes(spans["chat m-1"].attributes)["gen_ai.usage.input_tokens"] == 100
    assert {"gen_ai.client.token.usage", "kagura.runs"} <= {metric.name for metric in collector.metrics}
    [resource] = collector.resources
    assert (resource["service.name"], resource["service.version"]) == ("kagura-kernel", "1.2.3")
    report = telemetry.report()
    assert (report.ok, report.taken, report.failed) == (True, 6, 0)
    assert report.reason == f"to {collector.url}: 2 batches sent"


def test_the_standard_variables_name_the_service_and_its_headers(collector, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "night-shift")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=orchids")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    telemetry = Telemetry("1")
    a_run(telemetry)
    telemetry.close(AMPLE)
    assert collector.resources[0]["service.name"] == "night-shift"
    assert {name.lower(): value for name, value in collector.headers.items()}["x-tenant"] == "orchids"
    assert collector.metrics == []


@pytest.mark.parametrize("mood", ["down", "silent"])
def test_a_collector_that_is_down_costs_its_own_spans_and_no_time(collector, mood, capfd, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    collector.mood = mood
    telemetry = Telemetry("1")
    before = time.monotonic()
    a_run(telemetry)
    wait_until(lambda: telemetry.report().taken == 6)
    telemetry.close(0.5)
    # Its exporter alone would try again for a minute.
    assert time.monotonic() - before < AMPLE
    assert collector.spans == []
    wait_until(lambda: telemetry.report().failed)
    assert "did not arrive" in telemetry.report().reason
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


def test_more_events_than_can_wait_are_dropped_and_counted(collector, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(room, "MOST_WAITING", 3)
    telemetry = Telemetry("1", content=lambda text: gate.wait(60) and text)
    for event in (RUN.started(), *(RUN.noted(str(number)) for number in range(20))):
        telemetry.take(event)
    wait_until(lambda: telemetry.report().dropped)
    gate.set()
    telemetry.close(AMPLE)
    report = telemetry.report()
    assert not report.ok
    assert report.taken == 21
    assert "events were dropped" in report.reason
    assert collector.requests


def test_a_fault_in_the_telemetry_of_one_event_is_told_and_the_next_one_goes_on(collector, caplog):
    def content(text: str) -> str:
        if text == "count the rows":
            raise ValueError(text)
        return text

    telemetry = Telemetry("1", content=content)
    other = SampleRun(run_id="run-2")
    with caplog.at_level(logging.WARNING, "kagura_kernel"):
        for event in (RUN.started(), other.started(task="again"), other.finished()):
            telemetry.take(event)
        telemetry.close(AMPLE)
    assert "telemetry of run.started failed: ValueError" in caplog.text
    assert "count the rows" not in caplog.text
    assert [attributes(span.attributes)["kagura.run.id"] for span in collector.spans] == ["run-2"]
    assert telemetry.report().dropped == 1


def test_what_comes_after_closing_is_left_alone_and_closing_twice_is_nothing(collector):
    telemetry = Telemetry("1")
    telemetry.close()
    a_run(telemetry)
    telemetry.close()
    assert (collector.requests, telemetry.report().taken) == (0, 0)


def test_nothing_is_set_for_the_person_s_own_program(collector):
    from opentelemetry import metrics, trace

    before = (trace.get_tracer_provider(), metrics.get_meter_provider())
    telemetry = Telemetry("1")
    a_run(telemetry)
    telemetry.close(AMPLE)
    assert (trace.get_tracer_provider(), metrics.get_meter_provider()) == before
    assert collector.spans


def test_an_address_is_shown_without_what_may_be_secret(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://ada:hunter2@collector.example:4318/x?key=hunter2")
    assert endpoint() == "https://collector.example:4318"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces.example/v1/traces")
    assert endpoint() == "http://traces.example"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[")
    assert endpoint() == "an address that is none"


def test_variables_that_ask_for_what_is_not_there_are_problems(monkeypatch):
    assert problems() == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "collector:4318")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    found = problems()
    wrong = ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_TRACES_EXPORTER"]
    assert [line.partition(":")[0] for line in found] == wrong
    from kagura_kernel.assembly.settings import check_telemetry

    assert check_telemetry(Settings()) == []
    assert [field for field, _ in check_telemetry(Settings(telemetry=True))] == ["telemetry"] * 3
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert check_telemetry(Settings(telemetry=True)) == []


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def project(project: Path) -> Path:
    (project / "data.csv").write_text("a,b\n1,2\n")
    return project


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


def test_a_tool_that_a_model_made_up_is_told_without_its_name(cockpit_of, project, collector):
    telemetry = Telemetry("1")
    cockpit = cockpit_of({"parent": [Ask("no_such_tool_SENTINEL", {}), Ask("bash", {"command": "true"}), "."]})
    cockpit.journal.listen(telemetry.take)
    assert cockpit.launch(launch(project)).result(60).status == "done"
    telemetry.close(AMPLE)
    names = [span.name for span in collector.spans if span.name.startswith("execute_tool")]
    assert sorted(names) == ["execute_tool _OTHER", "execute_tool bash"]
    assert b"SENTINEL" not in collector.everything


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


TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
# Nothing about it says that it is one.
UNKNOWN = "orchid-window-seventeen"

log = logging.getLogger("kagura_kernel.somewhere")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A log that is open, since the process has its cockpit."""
    place = tmp_path / "kagura.log"
    for name, value in kernel_environ(tmp_path / "home", KAGURA_LOG_PLACE=str(place), KAGURA_LOG_LEVEL="info").items():
        monkeypatch.setenv(name, value)
    assembly.get_cockpit()
    yield place
    assembly.close_cockpit()


def written(place: Path) -> list[dict[str, Any]]:
    # The rules of redaction may have to be compiled first, and closing waits for nobody that long.
    wait_until(place.exists)
    assembly.close_cockpit()
    return [json.loads(line) for line in place.read_text("ascii").splitlines()]


def refuse() -> None:
    raise RuntimeError(f"401 for Authorization: Bearer {TOKEN}")


def test_what_looks_like_a_secret_is_taken_out_of_messages_and_tracebacks(place):
    try:
        refuse()
    except RuntimeError:
        log.exception("GITHUB_TOKEN=%s was refused", TOKEN)
    [line] = written(place)
    assert TOKEN not in json.dumps(line)
    assert "REDACTED" in line["text"]
    assert "REDACTED" in line["error"]["trace"]


def test_a_secret_that_this_process_holds_is_taken_out_whatever_it_looks_like(place):
    secret = Secret(UNKNOWN)
    log.warning("the provider said: %s is wrong", UNKNOWN)
    del secret
    [line] = written(place)
    assert line["text"] == "the provider said: (hidden) is wrong"


def test_a_secret_is_known_as_long_as_somebody_holds_it():
    secret = Secret(UNKNOWN)
    assert any(one is secret for one in live_secrets())
    del secret
    assert all(one.reveal() != UNKNOWN for one in live_secrets())


def test_a_log_that_cannot_be_where_it_is_wanted_is_told_before_anything_runs(tmp_path):
    environ = kernel_environ(tmp_path / "home", KAGURA_LOG_PLACE="logs/x.log", KAGURA_LOG_LEVEL="loud")
    with pytest.raises(ConfigurationError) as told:
        assembly.load_settings(environ)
    assert "KAGURA_LOG_PLACE: it is a file by its whole path" in told.value.message
    assert "KAGURA_LOG_LEVEL" in told.value.message
