from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from kagura_kernel.telemetry.metrics import MOST_KNOWN, Figures
from tests.support.sample_run import SampleRun

RUN = SampleRun()


class Counted:
    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.figures = Figures(MeterProvider([self.reader], shutdown_on_exit=False).get_meter("test"))

    def take(self, *events: Any) -> None:
        for event in events:
            self.figures.take(event)

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        data = self.reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        found = [metric for metric in metrics if metric.name == name]
        return [
            (dict(point.attributes or {}), getattr(point, "value", getattr(point, "sum", None)))
            for metric in found
            for point in metric.data.data_points
        ]


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_tokens_of_a_turn_are_told_by_kind_with_the_names_of_the_conventions(counted):
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

    counted.take(RUN.started(model="m-0"), RUN.counted(input_tokens=100, output_tokens=10))
    points = counted.points(gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE)
    assert sorted((about["gen_ai.token.type"], value) for about, value in points) == [("input", 100), ("output", 10)]
    about = points[0][0]
    assert (about["gen_ai.operation.name"], about["gen_ai.provider.name"]) == ("chat", "anthropic")
    assert (about["gen_ai.request.model"], about["gen_ai.response.model"]) == ("m-0", "m-1")


def test_a_run_that_ended_is_counted_with_its_length_and_its_cost(counted):
    counted.take(RUN.started(), RUN.finished(reported_usd=0.25, computed_usd=0.5, duration=2.5))
    assert counted.points("kagura.runs") == [({"kagura.run.flavour": "agent", "kagura.run.status": "done"}, 1)]
    [(about, value)] = counted.points("gen_ai.client.operation.duration")
    assert (about["gen_ai.operation.name"], value) == ("invoke_agent", 2.5)
    assert [value for _, value in counted.points("kagura.cost")] == [0.25]


def test_an_unknown_cost_is_counted_as_unknown_and_never_as_nothing(counted):
    counted.take(RUN.started(), RUN.finished())
    assert counted.points("kagura.cost") == []
    assert [value for _, value in counted.points("kagura.cost.unknown")] == [1]


def test_a_cell_s_own_code_has_no_model_and_no_cost(counted):
    counted.take(RUN.started(flavour="sandbox", brain=""), RUN.finished(brain="", model=""))
    assert counted.points("kagura.cost.unknown") == []
    assert counted.points("kagura.runs")[0][0]["kagura.run.flavour"] == "sandbox"


def test_failures_bear_their_code(counted):
    counted.take(RUN.started(), RUN.finished(status="failed", error_code="ERR_BRAIN_LOST"))
    assert counted.points("kagura.runs")[0][0]["error.type"] == "ERR_BRAIN_LOST"


def test_waits_leases_tools_and_crossings_are_counted(counted):
    counted.take(
        RUN.asked(),
        RUN.decided(verdict="timeout", waited=300.0),
        RUN.lease(),
        RUN.tool()[1].model_copy(update={"duration": 1.5, "is_error": True}),
        *RUN.reached(),
        RUN.refused(times=4),
    )
    assert counted.points("kagura.approval.duration") == [
        ({"kagura.approval.subject": "host_command", "kagura.approval.verdict": "timeout"}, 300.0)
    ]
    assert counted.points("kagura.lease.changes")[0][0]["kagura.lease.change"] == "acquired"
    tool = counted.points("kagura.tool.duration")[0][0]
    assert tool == {"gen_ai.tool.name": "bash", "kagura.tool.route": "sandbox", "error.type": "tool_error"}
    asked = counted.points("kagura.egress.connections")
    assert {about["kagura.egress.allowed"]: value for about, value in asked} == {True: 1, False: 2}
    assert {about["network.io.direction"]: value for about, value in counted.points("kagura.egress.io")} == {
        "receive": 48_213,
        "transmit": 1_840,
    }


def test_a_tool_that_the_run_does_not_offer_is_counted_without_its_name(counted):
    counted.take(RUN.tool()[1].model_copy(update={"tool": "no_such_tool", "offered": False}))
    assert counted.points("kagura.tool.duration")[0][0]["gen_ai.tool.name"] == "_OTHER"


def test_refusals_that_are_recorded_rarely_are_counted_in_full(counted):
    # They are recorded the 1st, 2nd, 4th and 8th time.
    counted.take(*(RUN.refused(times=times) for times in (1, 2, 4, 8)))
    assert counted.points("kagura.egress.connections") == [({"kagura.egress.allowed": False}, 8)]


def test_no_words_of_a_run_become_attributes(counted):
    secret = "ORCHID two"
    counted.take(
        RUN.started(task=secret, user=secret, project=secret),
        RUN.asked(title=secret, detail=secret),
        RUN.decided(answer=secret, by=secret),
        RUN.tool()[1].model_copy(update={"tool": secret, "text": secret}),
        RUN.counted(model=secret),
        RUN.finished(text=secret, error=secret),
    )
    data = counted.reader.get_metrics_data()
    assert data is not None
    assert "ORCHID" not in data.to_json()


def test_what_never_ends_takes_no_room_for_ever(counted):
    for number in range(MOST_KNOWN + 5):
        counted.take(SampleRun(run_id=f"run-{number}").started(), RUN.asked(f"app-{number}"))
    assert len(counted.figures._brains) == MOST_KNOWN
    assert len(counted.figures._subjects) == MOST_KNOWN
