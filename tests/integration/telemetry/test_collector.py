"""The real SDK and the real exporter, towards a collector on this machine."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from kagura_kernel.domain.settings import Settings
from kagura_kernel.telemetry import telemetry as room
from kagura_kernel.telemetry.spans import span_id, trace_id
from kagura_kernel.telemetry.telemetry import Telemetry, endpoint, problems
from kagura_kernel.testing.patience import wait_until
from tests.support.otlp_collector import attributes
from tests.support.sample_run import SampleRun

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


def test_where_nobody_listens_nothing_is_said_and_nothing_breaks(monkeypatch, capfd):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    telemetry = Telemetry("1")
    a_run(telemetry)
    telemetry.close(0.5)
    wait_until(lambda: telemetry.report().failed)
    assert not telemetry.report().ok
    assert capfd.readouterr().err == ""


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


def test_variables_that_ask_for_what_is_not_there_are_problems(monkeypatch):
    assert problems() == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    found = problems()
    assert [line.partition(":")[0] for line in found] == ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_EXPORTER"]
    from kagura_kernel.assembly.telemetry import check_telemetry

    assert check_telemetry(Settings()) == []
    assert [field for field, _ in check_telemetry(Settings(telemetry=True))] == ["telemetry", "telemetry"]
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert check_telemetry(Settings(telemetry=True)) == []
