"""From the journal's events to metrics: how much, how long, how often; never what was said."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kagura_kernel.domain import events as ev
from kagura_kernel.telemetry.spans import plain, provider_of, tool_name

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter

MOST_KNOWN = 10_000
"""Runs and approvals of which something is remembered between two of their events."""

_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68)

_TURN = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model")


class Figures:
    """Counts events, in the order in which they were stored; for one thread."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, about: str) -> Histogram:
            return meter.create_histogram(name, "s", about, explicit_bucket_boundaries_advisory=_SECONDS)

        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of one turn of a model",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._operations = seconds("gen_ai.client.operation.duration", "How long turns of models took, and whole runs")
        self._runs = meter.create_counter("kagura.runs", "{run}", "Runs that ended")
        self._usd = meter.create_counter("kagura.cost", "{USD}", "What runs cost, as far as that is known")
        self._unpriced = meter.create_counter("kagura.cost.unknown", "{run}", "Runs whose cost is not known")
        self._tools = seconds("kagura.tool.duration", "How long tool calls took")
        self._waits = seconds("kagura.approval.duration", "How long runs waited for approvals")
        self._leases = meter.create_counter("kagura.lease.changes", "{change}", "What happened to leased credentials")
        self._asked = meter.create_counter("kagura.egress.connections", "{connection}", "Connections asked for")
        self._bytes = meter.create_counter("kagura.egress.io", "By", "Bytes through the wall")
        self._plugins = seconds("kagura.plugin.duration", "How long calls of plugins took")
        self._brains: OrderedDict[str, ev.RunStarted] = OrderedDict()
        self._subjects: OrderedDict[str, str] = OrderedDict()

    def take(self, event: ev.Event) -> None:
        """Count one event."""
        match event:
            case ev.RunStarted():
                self._brains[event.run_id] = event
                if len(self._brains) > MOST_KNOWN:
                    self._brains.popitem(last=False)
            case ev.RunFinished():
                self._finished(event)
            case ev.TurnCounted():
                self._turn(event)
            case ev.ToolFinished():
                about = {"gen_ai.tool.name": tool_name(event), "kagura.tool.route": plain(event.route or "none")}
                failed = {"error.type": "tool_error"} if event.is_error else {}
                self._tools.record(event.duration, about | failed)
            case ev.ApprovalRequested() | ev.ApprovalDecided():
                self._approval(event)
            case _:
                self._crossing(event)

    def timed(self, seconds: float, about: Mapping[str, str | bool | int | float]) -> None:
        """Count how many seconds one turn of a model took, by those attributes that tell kinds of turns apart."""
        self._operations.record(seconds, {name: about[name] for name in _TURN if name in about})

    def _finished(self, event: ev.RunFinished) -> None:
        started = self._brains.pop(event.run_id, None)
        flavour = started.flavour if started is not None else "unknown"
        about: dict[str, str] = {"kagura.run.flavour": flavour, "kagura.run.status": event.status}
        failed: dict[str, str] = {}
        if event.status in ("failed", "lost"):
            failed["error.type"] = event.error_code or event.status
        self._runs.add(1, about | failed)
        brain = event.brain or (started.brain if started is not None else "")
        if not brain:
            return
        model = {"gen_ai.provider.name": provider_of(brain)}
        if event.model:
            model["gen_ai.response.model"] = plain(event.model)
        self._operations.record(event.duration, {"gen_ai.operation.name": "invoke_agent"} | model | failed)
        usd = event.computed_usd if event.reported_usd is None else event.reported_usd
        if usd is None:
            self._unpriced.add(1, model)
        else:
            self._usd.add(max(0.0, usd), model)

    def _turn(self, event: ev.TurnCounted) -> None:
        started = self._brains.get(event.run_id)
        about = {"gen_ai.operation.name": "chat"}
        if started is not None and started.brain:
            about["gen_ai.provider.name"] = provider_of(started.brain)
        if started is not None and started.model:
            about["gen_ai.request.model"] = plain(started.model)
        if event.model:
            about["gen_ai.response.model"] = plain(event.model)
        self._tokens.record(event.input_tokens, about | {"gen_ai.token.type": "input"})
        self._tokens.record(event.output_tokens, about | {"gen_ai.token.type": "output"})

    def _approval(self, event: ev.ApprovalRequested | ev.ApprovalDecided) -> None:
        if isinstance(event, ev.ApprovalRequested):
            self._subjects[event.approval_id] = plain(event.subject)
            if len(self._subjects) > MOST_KNOWN:
                self._subjects.popitem(last=False)
            return
        subject = self._subjects.pop(event.approval_id, "unknown")
        about = {"kagura.approval.subject": subject, "kagura.approval.verdict": plain(event.verdict)}
        self._waits.record(event.waited, about)

    def _crossing(self, event: ev.Event) -> None:
        match event:
            case ev.LeaseChanged():
                about = {"kagura.lease.provider": plain(event.provider), "kagura.lease.change": event.change}
                self._leases.add(1, about)
            case ev.EgressDecided():
                # Repeated refusals are recorded the 1st, 2nd, 4th … time: each stands for those since the last one.
                times = event.times if event.allowed else (event.times + 1) // 2
                self._asked.add(times, {"kagura.egress.allowed": event.allowed})
            case ev.EgressClosed():
                self._bytes.add(event.bytes_out, {"network.io.direction": "transmit"})
                self._bytes.add(event.bytes_in, {"network.io.direction": "receive"})
            case ev.PluginCalled():
                failed = {} if event.ok else {"error.type": plain(event.error_code)}
                self._plugins.record(event.duration, {"kagura.plugin.name": plain(event.plugin)} | failed)
            case _:
                return
