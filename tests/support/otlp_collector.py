"""A collector on this machine's loopback that understands OTLP over HTTP, for tests of telemetry."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

Mood = Literal["well", "down", "silent"]
"""Takes everything; refuses everything with 503; takes a request and never answers."""


class OtlpCollector:
    """What it was sent; used from any thread."""

    def __init__(self) -> None:
        self.mood: Mood = "well"  # How it answers from now on
        self.requests = 0  # How often it was asked
        self.headers: dict[str, str] = {}  # Those of the latest request
        self._lock = threading.Lock()
        self._bodies: list[tuple[str, bytes]] = []
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """What `OTEL_EXPORTER_OTLP_ENDPOINT` is set to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def spans(self) -> list[Any]:
        """Every span, as it came."""
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self._taken() if path == "/v1/traces"]
        scopes = [scope for one in requests for resource in one.resource_spans for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    @property
    def metrics(self) -> list[Any]:
        """Every metric, as it came."""
        found = [ExportMetricsServiceRequest.FromString(body) for path, body in self._taken() if path == "/v1/metrics"]
        scopes = [scope for one in found for resource in one.resource_metrics for scope in resource.scope_metrics]
        return [metric for scope in scopes for metric in scope.metrics]

    @property
    def resources(self) -> list[dict[str, Any]]:
        """What each sender of spans said about itself."""
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self._taken() if path == "/v1/traces"]
        return [attributes(one.resource.attributes) for request in requests for one in request.resource_spans]

    @property
    def everything(self) -> bytes:
        """All bytes that came, for a search."""
        return b"\0".join(body for _, body in self._taken())

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> int:
        """Keep a request; the status to answer with, 0 for none at all."""
        with self._lock:
            self.requests += 1
            self.headers = headers
            if self.mood == "well":
                self._bodies.append((path, body))
        if self.mood == "silent":
            self._released.wait()
        return {"well": 200, "down": 503, "silent": 0}[self.mood]

    def serve(self) -> None:
        """Answer until it is closed."""
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        """Stop, and let those go that wait for an answer."""
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def _taken(self) -> list[tuple[str, bytes]]:
        with self._lock:
            return list(self._bodies)


def attributes(given: Any) -> dict[str, Any]:
    """Attributes of OTLP as a mapping."""

    def value(one: KeyValue) -> Any:
        return getattr(one.value, one.value.WhichOneof("value") or "string_value")

    return {one.key: value(one) for one in given}


@contextmanager
def otlp_collector() -> Iterator[OtlpCollector]:
    """A collector that answers while the block lasts."""
    collector = OtlpCollector()
    thread = threading.Thread(target=collector.serve, name="otlp-collector", daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.close()
        thread.join()


def _handler(collector: OtlpCollector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status = collector.take(self.path, body, dict(self.headers.items()))
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
