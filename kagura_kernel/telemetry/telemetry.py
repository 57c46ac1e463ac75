"""One subscriber of the journal's events, which tells a collector of them. It never slows, breaks or outlives a run.

An event is put into a short queue and the run goes on; a thread of its own makes spans and figures of it, and threads
of OpenTelemetry send them. What cannot be sent is dropped and counted. Nothing is set globally: the person's own
program may use OpenTelemetry as it likes.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.events import Event
from kagura_kernel.domain.late_dataclass import dataclass

if TYPE_CHECKING:
    from kagura_kernel.telemetry.exporters import Sending

log = logging.getLogger(__name__)
# What its libraries say about a collector that is down is told by `report`, and never on the person's screen.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())

MOST_WAITING = 10_000
"""Events that may wait for their thread; further ones are dropped and counted."""

CLOSE_SECONDS = 2.0
"""How long closing waits for what is still to be sent."""

_PROTOCOLS = (
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
)
_EXPORTERS = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")
_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)


@dataclass(frozen=True, slots=True)
class TelemetryReport:
    """How it goes."""

    endpoint: str  # Where it is sent, without anything that could be secret
    taken: int = 0  # Events that were taken
    dropped: int = 0  # Events that were not, for too many waited or something failed
    sent: int = 0  # Batches that the collector took
    failed: int = 0  # Batches that it did not

    @property
    def ok(self) -> bool:
        """Whether all of it arrives, as far as is known."""
        return not self.dropped and not self.failed

    @property
    def reason(self) -> str:
        """The same in half a sentence."""
        lost = f", {self.failed} batches did not arrive" if self.failed else ""
        dropped = f", {self.dropped} events were dropped" if self.dropped else ""
        return f"to {self.endpoint}: {self.sent} batches sent{lost}{dropped}"


class Telemetry:
    """Tells of events; from any thread.

    Args:
        version: Of this package.
        content: Takes secrets out of a text that is told; None tells no text at all.
    """

    def __init__(self, version: str, *, content: Callable[[str], str] | None = None) -> None:
        self._version = version
        self._content = content
        self._queue: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._sending: Sending | None = None
        self._closed = False
        self._taken = 0
        self._dropped = 0

    def warm(self) -> None:
        """Begin to load OpenTelemetry, which takes as long as a small run; returns at once."""
        with self._lock:
            if not self._closed:
                self._start()

    def take(self, event: Event) -> None:
        """Tell of an event, soon; returns at once, and never raises."""
        with self._lock:
            if self._closed:
                return
            self._start()
            self._taken += 1
            try:
                self._queue.put_nowait(event)
            except queue.Full:
                self._dropped += 1

    def report(self) -> TelemetryReport:
        """How it goes."""
        sending = self._sending
        sent, failed = (sending.sent, sending.failed) if sending is not None else (0, 0)
        return TelemetryReport(endpoint(), self._taken, self._dropped, sent, failed)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Send what waits, for so long at most; may be called twice. What did not arrive by then is lost."""
        deadline = time.monotonic() + seconds
        with self._lock:
            closed, self._closed = self._closed, True
            thread = self._thread
        if closed or thread is None:
            return
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            return
        thread.join(max(0.0, deadline - time.monotonic()))
        if self._sending is not None:
            self._sending.close(max(0.0, deadline - time.monotonic()))

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="kagura-telemetry", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        takes: list[Callable[[Any], None]] = []
        end: Callable[[], None] | None = None
        try:
            takes, end = self._prepared()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a library costs its telemetry, never a run
            log.warning("telemetry cannot be sent: %s", type(error).__name__)
        while (event := self._queue.get()) is not None:
            try:
                for take in takes:
                    take(event)
                self._dropped += not takes
            except Exception as error:  # noqa: BLE001 - as above
                self._dropped += 1
                log.warning("telemetry of %s failed: %s", event.kind, type(error).__name__)
        if end is not None:
            end()

    def _prepared(self) -> tuple[list[Callable[[Any], None]], Callable[[], None]]:
        from kagura_kernel.telemetry.exporters import Sending
        from kagura_kernel.telemetry.metrics import Figures
        from kagura_kernel.telemetry.spans import RunIds, Spans

        ids = RunIds()
        self._sending = sending = Sending(self._version, ids)
        figures = Figures(sending.figures.get_meter("kagura-kernel", self._version))
        tracer = sending.traces.get_tracer("kagura-kernel", self._version)
        spans = Spans(tracer, ids, self._content, figures.timed)
        return [spans.take, figures.take], spans.end


def endpoint() -> str:
    """Where the standard variables send telemetry, without user, password and query."""
    from urllib.parse import urlsplit

    named = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    try:
        parts = urlsplit(named or "http://localhost:4318")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that is none"
    return f"{parts.scheme}://{parts.hostname or '?'}{port}"


def problems() -> list[str]:
    """What in this process keeps telemetry from being sent, a sentence each, without anybody's values."""
    from importlib.util import find_spec

    def there(module: str) -> bool:
        try:
            return find_spec(module) is not None
        except ModuleNotFoundError:
            return False

    def odd(name: str, *known: str) -> bool:
        return os.environ.get(name, "") not in ("", *known)

    found = []
    if not (there("opentelemetry.sdk.trace") and there("opentelemetry.exporter.otlp.proto.http")):
        found.append("it needs one more package: pip install 'kagura-kernel[otel]'")
    found += [
        f"{name}: it is `http/protobuf`, on the collector's port 4318"
        for name in _PROTOCOLS
        if odd(name, "http/protobuf")
    ]
    found += [
        f"{name}: it is an address that begins with http:// or https://"
        for name in _ENDPOINTS
        if not os.environ.get(name, "http://").startswith(("http://", "https://"))
    ]
    found += [f"{name}: it is `otlp` or `none`" for name in _EXPORTERS if odd(name, "otlp", "none")]
    return found
