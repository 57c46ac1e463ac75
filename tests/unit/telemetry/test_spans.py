from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kagura_kernel.domain.events import ChildStarted, Event, KitStaged, PluginCalled, RunVerified
from kagura_kernel.telemetry.spans import LONGEST_TEXT, MOST_RUNS, RunIds, Spans, span_id, trace_id
from tests.support.sample_run import SampleRun

RUN = SampleRun()


def later(event: Event, seconds: float) -> Event:
    return event.model_copy(update={"at": RUN.at + timedelta(seconds=seconds)})


class Told:
    """Spans of events, as an exporter gets them."""

    def __init__(self, content: Callable[[str], str] | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        ids = RunIds()
        provider = TracerProvider(id_generator=ids, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.timed: list[float] = []
        self.spans = Spans(
            provider.get_tracer("test"), ids, content, lambda seconds, _about: self.timed.append(seconds)
        )

    def take(self, *events: Event) -> Told:
        for event in events:
            self.spans.take(event)
        return self

    def all(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def told() -> Told:
    return Told()


def seconds_of(span: ReadableSpan) -> tuple[float, float]:
    begin = int(RUN.at.timestamp() * 1e9)
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.start_time - begin) / 1e9, (span.end_time - begin) / 1e9


def whole_run() -> list[Event]:
    called, finished = RUN.tool()
    return [
        RUN.started(model="m-1"),
        later(KitStaged(run_id="run-1", session_id="ses-1", at=RUN.at, agent="default"), 1),
        later(RUN.boxed(ready_ms=12.5), 2),
        later(RUN.counted(cache_read_tokens=60, cache_write_tokens=20), 5),
        later(called, 5),
        later(RUN.asked(requested_at=RUN.at + timedelta(seconds=5.5)), 5.5),
        later(RUN.decided(waited=1.5), 7),
        later(finished, 8),
        later(RUN.lease(), 8.5),
        later(RUN.lease("renewed"), 9),
        later(RUN.counted(), 10),
        later(RUN.lease("released"), 11),
        later(RUN.finished(input_tokens=200, output_tokens=20, computed_usd=1.0), 12),
    ]


def test_a_run_is_an_agent_span_with_turns_tools_and_waits_below_it(told):
    spans = told.take(*whole_run()).all()
    assert set(spans) == {
        "invoke_agent default",
        "chat m-1",
        "execute_tool bash",
        "approval host_command",
        "lease github",
    }
    root = spans["invoke_agent default"]
    assert root.parent is None
    assert root.context.span_id == span_id("run-1")
    assert root.context.trace_id == trace_id("run-1")
    for name in ("chat m-1", "execute_tool bash", "lease github"):
        assert spans[name].parent.span_id == root.context.span_id
    assert spans["approval host_command"].parent.span_id == spans["execute_tool bash"].context.span_id


def test_the_attributes_are_those_of_the_conventions(told):
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    spans = told.take(*whole_run()).all()
    named = {name for span in spans.values() for name in span.attributes if name.startswith("gen_ai.")}
    assert named <= known
    root = spans["invoke_agent default"].attributes
    assert root["gen_ai.operation.name"] == "invoke_agent"
    assert root["gen_ai.provider.name"] == "anthropic"
    assert root["gen_ai.agent.name"] == "default"
    assert root["gen_ai.conversation.id"] == "ses-1"
    assert (root["gen_ai.usage.input_tokens"], root["gen_ai.usage.output_tokens"]) == (200, 20)
    assert (root["kagura.run.status"], root["kagura.run.computed_usd"]) == ("done", 1.0)
    assert (root["kagura.box.backend"], root["kagura.box.isolation"]) == ("docker", "container")
    tool = spans["execute_tool bash"].attributes
    assert (tool["gen_ai.operation.name"], tool["gen_ai.tool.name"]) == ("execute_tool", "bash")
    assert (tool["gen_ai.tool.call.id"], tool["process.exit.code"]) == ("call-1", 0)


def test_each_turn_is_a_client_span_with_its_tokens(told):
    told.take(*whole_run())
    turns = [span for span in told.exporter.get_finished_spans() if span.name == "chat m-1"]
    assert [seconds_of(span) for span in turns] == [(2, 5), (8, 10)]
    assert {span.kind for span in turns} == {SpanKind.CLIENT}
    first = turns[0].attributes
    assert first["gen_ai.operation.name"] == "chat"
    assert (first["gen_ai.request.model"], first["gen_ai.response.model"]) == ("m-1", "m-1")
    assert first["gen_ai.usage.cache_read.input_tokens"] == 60
    assert first["gen_ai.usage.cache_creation.input_tokens"] == 20
    assert first["kagura.computed_usd"] == 0.5
    assert told.timed == [3, 2]


def test_a_brain_that_counts_a_turn_after_its_tools_has_the_same_turns(told):
    called, finished = RUN.tool()
    told.take(
        RUN.started(),
        later(RUN.boxed(), 2),
        later(called, 5),
        later(finished, 8),
        later(RUN.counted(), 8.1),
        later(RUN.counted(), 10),
        later(RUN.finished(), 12),
    )
    turns = [span for span in told.exporter.get_finished_spans() if span.name == "chat m-1"]
    assert [seconds_of(span) for span in turns] == [(2, 5), (8, 10)]


def test_waiting_for_a_person_takes_as_long_as_it_took(told):
    spans = told.take(*whole_run()).all()
    approval = spans["approval host_command"]
    assert seconds_of(approval) == (5.5, 7)
    assert (approval.attributes["kagura.approval.verdict"], approval.attributes["kagura.approval.waited"]) == (
        "allow",
        1.5,
    )
    lease = spans["lease github"]
    assert seconds_of(lease) == (8.5, 11)
    assert [event.name for event in lease.events] == ["lease.acquired", "lease.renewed", "lease.released"]


def test_without_being_asked_for_no_word_of_a_run_is_told(told):
    called, finished = RUN.tool()
    secret = "ORCHID"
    told.take(
        RUN.started(task=secret, project=f"/home/{secret}", user=secret, owner=secret, notebook=f"{secret}.ipynb"),
        RUN.said(secret),
        called.model_copy(update={"arguments": {secret: secret}, "tool": f"no_such_tool_{secret}", "offered": False}),
        RUN.asked(title=secret, detail=secret, reason=secret, arguments={"command": secret}),
        RUN.decided(answer=secret, by=secret),
        finished.model_copy(update={"text": secret, "is_error": True}),
        RUN.refused(f"{secret}.example.com"),
        RUN.noted(secret),
        RUN.lease(why=secret),
        RUN.counted(),
        RunVerified(run_id="run-1", session_id="ses-1", at=RUN.at, command=secret, passed=False, text=secret),
        RUN.finished(status="failed", text=secret, error=secret, error_code="ERR_BRAIN_LOST"),
    )
    shown = "".join(span.to_json() for span in told.exporter.get_finished_spans())
    assert secret not in shown
    assert "execute_tool _OTHER" in shown


def test_content_that_was_asked_for_is_told_as_messages_and_only_after_it_was_redacted():
    told = Told(lambda text: text.replace("hunter2", "[REDACTED]"))
    called, finished = RUN.tool()
    told.take(
        RUN.started(task="log in with hunter2"),
        RUN.said("I use hunter2."),
        RUN.counted(),
        called.model_copy(update={"arguments": {"command": "login hunter2"}}),
        finished.model_copy(update={"text": "hunter2 is right"}),
        RUN.finished(text="Done with hunter2."),
    )
    spans = told.all()
    assert "hunter2" not in "".join(span.to_json() for span in spans.values())
    [asked] = json.loads(spans["invoke_agent"].attributes["gen_ai.input.messages"])
    assert asked == {"role": "user", "parts": [{"type": "text", "content": "log in with [REDACTED]"}]}
    [said] = json.loads(spans["chat m-1"].attributes["gen_ai.output.messages"])
    assert said["parts"][0]["content"] == "I use [REDACTED]."
    assert "login [REDACTED]" in spans["execute_tool bash"].attributes["gen_ai.tool.call.arguments"]
    assert spans["execute_tool bash"].attributes["gen_ai.tool.call.result"] == "[REDACTED] is right"


def test_a_long_text_is_redacted_before_it_is_cut():
    told = Told(lambda text: text.replace("hunter2", "[REDACTED]"))
    told.take(RUN.started(task="x" * (LONGEST_TEXT - 3) + "hunter2" + "y" * 100), RUN.finished())
    told_text = told.all()["invoke_agent"].attributes["gen_ai.input.messages"]
    assert "hun" not in told_text
    assert len(told_text) < LONGEST_TEXT + 200


@pytest.mark.parametrize(("status", "error"), [("failed", True), ("lost", True), ("killed", False), ("stopped", False)])
def test_only_what_went_wrong_is_an_error(told, status, error):
    span = told.take(RUN.started(), RUN.finished(status=status, error_code="ERR_X")).all()["invoke_agent"]
    assert (span.status.status_code is StatusCode.ERROR) == error
    assert span.attributes.get("error.type") == ("ERR_X" if error else None)
    assert span.attributes["kagura.run.error_code"] == "ERR_X"
    assert span.status.description is None


def test_a_child_lies_below_its_parent_and_the_call_that_handed_it_on_leads_to_it(told):
    called, finished = RUN.tool()
    child = SampleRun(run_id="run-2", session_id="ses-2")
    started = ChildStarted(run_id="run-1", session_id="ses-1", at=RUN.at, child="run-2", call_id="call-1")
    told.take(RUN.started(), called, child.started(lineage=("run-1",)), started, child.finished(), finished)
    told.take(RUN.finished())
    runs = {span.attributes.get("kagura.run.id"): span for span in told.exporter.get_finished_spans()}
    below, above = runs["run-2"], runs["run-1"]
    assert below.parent.span_id == above.context.span_id
    assert below.context.trace_id == trace_id("run-1")
    assert below.attributes["kagura.run.depth"] == 1
    [link] = told.all()["execute_tool bash"].links
    assert (link.context.trace_id, link.context.span_id) == (below.context.trace_id, below.context.span_id)


def test_a_child_in_another_process_finds_its_parent_by_name_alone():
    here, there = Told(), Told()
    here.take(RUN.started(), RUN.finished())
    grandchild = SampleRun(run_id="run-3", session_id="ses-3")
    there.take(grandchild.started(lineage=("run-1", "run-2")), grandchild.finished())
    [span] = there.exporter.get_finished_spans()
    [parent] = here.exporter.get_finished_spans()
    assert span.context.trace_id == parent.context.trace_id
    assert span.parent.span_id == span_id("run-2")


def test_a_run_that_goes_on_from_another_one_is_linked_to_it(told):
    span = told.take(RUN.started(resumes="run-0"), RUN.finished()).all()["invoke_agent"]
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [
        (trace_id("run-0"), span_id("run-0"))
    ]


def test_an_audit_and_a_cell_s_own_code_are_told_for_what_they_are(told):
    other = SampleRun(run_id="run-2")
    told.take(RUN.started(flavour="audit"), RUN.finished())
    told.take(other.started(flavour="sandbox", brain=""), other.finished(exit_code=3))
    spans = told.all()
    assert set(spans) == {"invoke_agent plugin-auditor", "run_cell"}
    assert "gen_ai.operation.name" not in spans["run_cell"].attributes
    assert spans["run_cell"].attributes["kagura.run.exit_code"] == 3


def test_a_call_of_a_plugin_is_a_span_of_its_own_length(told):
    called = PluginCalled(
        run_id="run-1",
        session_id="ses-1",
        at=RUN.at + timedelta(seconds=3),
        plugin="fs-read",
        module="fs",
        function="read",
        ok=False,
        error_code="ERR_PLUGIN_CALL",
        duration=2,
    )
    span = told.take(RUN.started(), called, RUN.finished()).all()["plugin fs-read"]
    assert seconds_of(span) == (1, 3)
    assert span.attributes["error.type"] == "ERR_PLUGIN_CALL"


def test_a_run_that_was_found_lost_ends_where_another_process_began_it(told):
    span = told.take(RUN.finished(status="lost", error_code="ERR_RUN_LOST", duration=2.5)).all()["invoke_agent"]
    assert (span.context.trace_id, span.context.span_id) == (trace_id("run-1"), span_id("run-1"))
    assert seconds_of(span) == (-2.5, 0)


def test_what_never_ends_is_ended_and_takes_no_room_for_ever(told):
    called, _ = RUN.tool()
    told.take(RUN.started(), called)
    for number in range(MOST_RUNS):
        told.take(SampleRun(run_id=f"run-x{number}").started())
    assert {"invoke_agent", "execute_tool bash"} == set(told.all())
    told.spans.end()
    assert len(told.exporter.get_finished_spans()) == MOST_RUNS + 2


def test_events_of_no_run_and_of_unknown_runs_are_left_alone(told):
    strange: list[Any] = [RUN.tool()[0], RUN.tool()[1], RUN.decided(), RUN.counted(), RUN.noted()]
    told.take(*strange)
    told.take(RUN.started(), RUN.decided("app-unknown"), RUN.tool(9)[1], RUN.finished())
    assert set(told.all()) == {"invoke_agent"}
