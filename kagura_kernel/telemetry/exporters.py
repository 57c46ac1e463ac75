"""How telemetry leaves: OpenTelemetry's own providers, batches and exporters, made for us alone and closed in time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator

NAME = "kagura-kernel"
"""The service, unless the standard variables name it otherwise."""


class Sending:
    """Both providers.

    Args:
        version: Of this package.
        ids: Makes the ids of spans.
    """

    def __init__(self, version: str, ids: IdGenerator) -> None:
        self.sent = 0  # Batches that arrived
        self.failed = 0  # Batches that did not
        self._lock = threading.Lock()
        self._exporters: list[SpanExporter | MetricExporter] = []
        resource = _resource(version)
        # Not at the end of the process by themselves: whoever made them closes them, and waits no longer than wanted.
        self.traces = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)  # Makes spans
        readers = []
        if _wanted("OTEL_TRACES_EXPORTER"):
            spans = _CountedSpans(self._count)
            self._exporters.append(spans)
            self.traces.add_span_processor(BatchSpanProcessor(spans))
        if _wanted("OTEL_METRICS_EXPORTER"):
            figures = _CountedFigures(self._count)
            self._exporters.append(figures)
            readers.append(PeriodicExportingMetricReader(figures))
        self.figures = MeterProvider(readers, resource=resource, shutdown_on_exit=False)  # Makes instruments

    def close(self, seconds: float) -> None:
        """Send what waits, for so long at most, and end every thread that can be ended; may be called twice."""
        deadline = time.monotonic() + seconds
        closing = [
            threading.Thread(target=close, name="kagura-telemetry-close", daemon=True)
            for close in (self.traces.shutdown, self.figures.shutdown)
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in closing):
            # What waits between two tries of a collector that is down wakes up, and gives up.
            for exporter in self._exporters:
                exporter.shutdown()

    def _count(self, arrived: bool) -> None:
        with self._lock:
            if arrived:
                self.sent += 1
            else:
                self.failed += 1


class _CountedSpans(OTLPSpanExporter):
    """An exporter that says how it went."""

    def __init__(self, count: Callable[[bool], None]) -> None:
        super().__init__()
        self._count = count

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        result = SpanExportResult.FAILURE
        try:
            result = super().export(spans)
        finally:
            self._count(result is SpanExportResult.SUCCESS)
        return result


class _CountedFigures(OTLPMetricExporter):
    """Likewise, of figures."""

    def __init__(self, count: Callable[[bool], None]) -> None:
        super().__init__()
        self._count = count

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        """Send a batch."""
        result = MetricExportResult.FAILURE
        try:
            result = super().export(metrics_data, timeout_millis, **kwargs)
        finally:
            self._count(result is MetricExportResult.SUCCESS)
        return result


def _wanted(variable: str) -> bool:
    return os.environ.get(variable, "otlp") != "none"


def _resource(version: str) -> Resource:
    resource = Resource.create({"service.version": version})
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: NAME}))
    return resource
