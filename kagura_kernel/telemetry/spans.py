"""From the journal's events to spans, by the GenAI conventions of OpenTelemetry.

A run is an `invoke_agent` span; below it stand one `chat` span for each turn of the model, one `execute_tool` span for
each tool call, and spans for what waits or is held meanwhile: approvals, leases. Ids come from the run's own id, so a
child finds its parent in whichever process it runs. Without `content` no word of a person, a model or a program is
told.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry import trace
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from kagura_kernel.domain import events as ev
from kagura_kernel.domain.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer


# Whatever a model or a program in a box made up is content, and has as many values as there are runs.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,95}")

OTHER = "_OTHER"
"""What stands for a word that is not told."""

_PROVIDERS = {"claude": "anthropic", "sealed": "anthropic", "openai": "openai"}


def trace_id(run_id: str) -> int:
    """The trace of a run that works for no other one, and of all runs that work for it; never 0."""
    return _digest("trace", run_id, 16)


def span_id(run_id: str) -> int:
    """The span of a run; never 0."""
    return _digest("span", run_id, 8)


def plain(word: str) -> str:
    """A name as it may be told: as it is where it looks like one, otherwise `_OTHER`."""
    return word if _PLAIN.fullmatch(word) else OTHER


def tool_name(event: ev.ToolCalled | ev.ToolFinished) -> str:
    """A tool's name as it may be told: `_OTHER` where the run offers no such tool, for then somebody made it up."""
    return plain(event.tool) if event.offered else OTHER


def provider_of(brain: str) -> str:
    """What the conventions call who stands behind a brain: a well-known name, or the brain's own."""
    return _PROVIDERS.get(brain, plain(brain))


def nanoseconds(moment: datetime) -> int:
    """A moment as OpenTelemetry writes it: nanoseconds since 1970."""
    return int(moment.timestamp() * 1_000_000) * 1000


def _digest(what: str, name: str, size: int) -> int:
    digest = hashlib.sha256(f"kagura-kernel {what} {name}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:size], "big") or 1


_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class RunIds(IdGenerator):
    """Gives the ids that are wanted next, and random ones otherwise; for one thread."""

    def __init__(self) -> None:
        self.next_trace = 0  # Of the next span without a parent; 0 for a random one
        self.next_span = 0  # Of the next span; 0 for a random one
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        """An id for a trace."""
        wanted, self.next_trace = self.next_trace, 0
        return wanted or self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        """An id for a span."""
        wanted, self.next_span = self.next_span, 0
        return wanted or self._random.generate_span_id()

    def is_trace_id_random(self) -> bool:
        """They are made of a hash, which is as good for sampling."""
        return True


def nowhere() -> Context:
    """A context without a parent, whatever the person's own program is tracing."""
    return trace.set_span_in_context(trace.INVALID_SPAN)


def context_of(run_id: str, first: str) -> SpanContext:
    """Where the span of a run lies, whichever process makes it; `first` is the run in whose trace it lies."""
    return SpanContext(trace_id(first), span_id(run_id), is_remote=True, trace_flags=_SAMPLED)


def child_context(parent: SpanContext, run_id: str) -> SpanContext:
    """Where the span of a run lies that works for another one."""
    return SpanContext(parent.trace_id, span_id(run_id), is_remote=True, trace_flags=parent.trace_flags)


E = TypeVar("E", bound=ev.Event)
Attributes = dict[str, str | bool | int | float]

MOST_RUNS = 1000
"""Runs that are followed at once; of more than these the oldest is told as far as it is known."""

LONGEST_TEXT = 16_384
"""Characters of one text that is told where content was asked for."""


@dataclass(slots=True)
class _Followed:
    """A run that goes on."""

    span: Span  # Its own
    about: Attributes  # Attributes that its turns share
    since: int  # When the model was last handed something, nanoseconds
    until: int = 0  # When it first asked for a tool in this turn; 0 while it has not
    answered: int = 0  # When the last tool answered, 0 while none has in this turn
    counts_late: bool | None = None  # Whether a turn is counted after its tools have answered; None until that is known
    tools: dict[str, Span] = field(default_factory=dict)  # Spans of calls that go on, by call
    waits: dict[str, Span] = field(default_factory=dict)  # Spans of approvals that wait, by approval
    leases: dict[str, Span] = field(default_factory=dict)  # Spans of leases that are held, by lease
    said: list[str] = field(default_factory=list)  # What the model wrote in this turn; only where content is told


class Spans:
    """Makes spans of events, in the order in which they were stored; for one thread.

    Args:
        tracer: Whose provider has `ids` for its id generator.
        ids: Gives the next ids.
        content: Takes secrets out of a text that is told; None tells no text at all.
        timed: Told how many seconds each turn of a model took, with its attributes.
    """

    def __init__(
        self,
        tracer: Tracer,
        ids: RunIds,
        content: Callable[[str], str] | None = None,
        timed: Callable[[float, Attributes], None] = lambda _seconds, _about: None,
    ) -> None:
        self._tracer = tracer
        self._ids = ids
        self._content = content
        self._timed = timed
        self._runs: OrderedDict[str, _Followed] = OrderedDict()
        self._takes: Mapping[type[ev.Event], Callable[[Any, _Followed], None]] = {
            ev.KitStaged: self._staged,
            ev.BoxStarted: self._boxed,
            ev.TextWritten: self._wrote,
            ev.TurnCounted: self._counted,
            ev.ToolCalled: self._called,
            ev.ToolFinished: self._answered,
            ev.ApprovalRequested: self._asked,
            ev.ApprovalDecided: self._decided,
            ev.LeaseChanged: self._leased,
            ev.PluginCalled: self._plugin,
            ev.ChildStarted: self._hand_on,
            ev.RunVerified: lambda event, run: run.span.add_event(
                "run.verified", {"kagura.run.verified": event.passed}, timestamp=nanoseconds(event.at)
            ),
        }

    def take(self, event: ev.Event) -> None:
        """Tell of one event."""
        if isinstance(event, ev.RunStarted):
            self._begin(event)
        elif isinstance(event, ev.RunFinished):
            self._end(event)
        elif (run := self._runs.get(event.run_id)) is not None and (tell := self._takes.get(type(event))) is not None:
            tell(event, run)

    def end(self) -> None:
        """End what is still open, for nothing more will come."""
        while self._runs:
            _, run = self._runs.popitem(last=False)
            _close(run, None)

    # ------------------------------------------------------------------ the run

    def _begin(self, event: ev.RunStarted) -> None:
        while len(self._runs) >= MOST_RUNS:
            _, oldest = self._runs.popitem(last=False)
            _close(oldest, None)
        span = self._run_span(event)
        about: Attributes = {"gen_ai.conversation.id": plain(event.session_id)}
        if event.brain:
            about["gen_ai.provider.name"] = provider_of(event.brain)
        if event.model:
            about["gen_ai.request.model"] = plain(event.model)
        span.set_attributes(
            about
            | {
                "kagura.run.id": event.run_id,
                "kagura.run.flavour": event.flavour,
                "kagura.run.brain": plain(event.brain) if event.brain else "",
                "kagura.run.origin": plain(event.origin),
                "kagura.run.headless": event.headless,
                "kagura.run.depth": len(event.lineage),
            }
        )
        if event.flavour != "sandbox":
            span.set_attribute("gen_ai.operation.name", "invoke_agent")
            self._told(span, "gen_ai.input.messages", event.task, "user")
        self._runs[event.run_id] = _Followed(span, about, nanoseconds(event.at))

    def _run_span(self, event: ev.RunStarted) -> Span:
        name = {
            "agent": "invoke_agent",
            "audit": "invoke_agent plugin-auditor",
            "classification": "invoke_agent chat-classifier",
            "sandbox": "run_cell",
        }[event.flavour]
        links = []
        if event.resumes:
            links = [Link(context_of(event.resumes, event.resumes), {"kagura.link": "resumes"})]
        context: Context | None = None
        if event.lineage:
            here = self._runs.get(event.lineage[-1])
            parent = here.span.get_span_context() if here else context_of(event.lineage[-1], event.lineage[0])
            context = trace.set_span_in_context(NonRecordingSpan(parent))
        self._ids.next_trace = 0 if event.lineage else trace_id(event.run_id)
        self._ids.next_span = span_id(event.run_id)
        return self._tracer.start_span(
            name, context=context or nowhere(), links=links, start_time=nanoseconds(event.at)
        )

    def _end(self, event: ev.RunFinished) -> None:
        run = self._runs.pop(event.run_id, None)
        if run is None:
            run = self._end_of_another(event)
        span = run.span
        told: Attributes = {
            "kagura.run.status": event.status,
            "kagura.run.turns": event.turns,
            "kagura.run.tool_calls": event.tool_calls,
            "kagura.run.untrusted": event.untrusted,
            **_usage(event),
        }
        known = {
            "gen_ai.response.model": plain(event.model) if event.model else None,
            "kagura.run.reported_usd": event.reported_usd,
            "kagura.run.computed_usd": event.computed_usd,
            "kagura.run.changed_files": event.changed_files,
            "kagura.run.verified": event.verified,
            "kagura.run.exit_code": event.exit_code,
            "kagura.run.error_code": event.error_code or None,
        }
        span.set_attributes(told | {name: value for name, value in known.items() if value is not None})
        if event.status in ("failed", "lost"):
            span.set_attribute("error.type", event.error_code or event.status)
            # Without a description: the error's text may repeat what the run was about.
            span.set_status(Status(StatusCode.ERROR))
        self._told(span, "gen_ai.output.messages", event.text, "assistant")
        _close(run, nanoseconds(event.at))

    def _end_of_another(self, event: ev.RunFinished) -> _Followed:
        """The span of a run that another process began and could not end."""
        self._ids.next_trace = trace_id(event.run_id)
        self._ids.next_span = span_id(event.run_id)
        began = nanoseconds(event.at) - int(event.duration * 1e9)
        span = self._tracer.start_span("invoke_agent", context=nowhere(), start_time=began)
        span.set_attributes({"kagura.run.id": event.run_id, "gen_ai.conversation.id": plain(event.session_id)})
        return _Followed(span, {}, began)

    # ------------------------------------------------------- what happens in it

    def _staged(self, event: ev.KitStaged, run: _Followed) -> None:
        agent = plain(event.agent)
        run.span.update_name(f"invoke_agent {agent}")
        run.span.set_attribute("gen_ai.agent.name", agent)

    def _boxed(self, event: ev.BoxStarted, run: _Followed) -> None:
        kind = {"kagura.box.backend": plain(event.backend), "kagura.box.isolation": plain(event.isolation)}
        facts: Attributes = {**kind, "kagura.box.warm": event.warm, "kagura.box.ready_ms": event.ready_ms}
        run.span.set_attributes(kind)
        run.span.add_event("box.started", facts, timestamp=nanoseconds(event.at))
        run.since = nanoseconds(event.at)

    def _wrote(self, event: ev.TextWritten, run: _Followed) -> None:
        if self._content is not None:
            run.said.append(event.text)

    def _counted(self, event: ev.TurnCounted, run: _Followed) -> None:
        model = plain(event.model) if event.model else run.about.get("gen_ai.request.model", "")
        at = nanoseconds(event.at)
        facts: Attributes = {
            "gen_ai.operation.name": "chat",
            **_usage(event),
        }
        if model:
            facts["gen_ai.response.model"] = model
        if event.computed_usd is not None:
            facts["kagura.computed_usd"] = event.computed_usd
        span = self._below(run, f"chat {model}".rstrip(), run.since, run.about | facts, kind=SpanKind.CLIENT)
        self._told(span, "gen_ai.output.messages", "\n\n".join(run.said), "assistant")
        run.counts_late = bool(run.counts_late)
        # A turn that asked for tools was over when it asked, also where its tokens are counted afterwards.
        end = max(run.since, run.until or at)
        span.end(end)
        self._timed((end - run.since) / 1e9, run.about | facts)
        run.since, run.until, run.answered = run.answered or at, 0, 0
        run.said.clear()

    def _called(self, event: ev.ToolCalled, run: _Followed) -> None:
        at = nanoseconds(event.at)
        if run.counts_late is None:
            run.counts_late = True
        if run.counts_late:
            run.until = run.until or at
        tool = tool_name(event)
        facts: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": plain(event.call_id),
        }
        span = run.tools[event.call_id] = self._below(run, f"execute_tool {tool}", at, facts)
        if self._content is not None:
            span.set_attribute("gen_ai.tool.call.arguments", self._clean(json.dumps(event.arguments, default=str)))

    def _answered(self, event: ev.ToolFinished, run: _Followed) -> None:
        span = run.tools.pop(event.call_id, None)
        at = nanoseconds(event.at)
        if not run.tools and run.counts_late:
            run.answered = at
        elif not run.tools:
            run.since = at
        if span is None:
            return
        if event.route:
            span.set_attribute("kagura.tool.route", plain(event.route))
        if event.exit_code is not None:
            span.set_attribute("process.exit.code", event.exit_code)
        if event.is_error:
            span.set_attribute("error.type", "tool_error")
            span.set_status(Status(StatusCode.ERROR))
        if self._content is not None:
            span.set_attribute("gen_ai.tool.call.result", self._clean(event.text))
        span.end(at)

    def _asked(self, event: ev.ApprovalRequested, run: _Followed) -> None:
        facts: Attributes = {
            "kagura.approval.id": plain(event.approval_id),
            "kagura.approval.subject": plain(event.subject),
            "kagura.approval.deadline": event.deadline,
        }
        at = nanoseconds(event.at)
        name = f"approval {plain(event.subject)}"
        run.waits[event.approval_id] = self._below(run, name, at, facts, under=run.tools.get(event.call_id))

    def _decided(self, event: ev.ApprovalDecided, run: _Followed) -> None:
        span = run.waits.pop(event.approval_id, None)
        if span is None:
            return
        span.set_attributes(
            {
                "kagura.approval.verdict": plain(event.verdict),
                "kagura.approval.via": plain(event.via),
                "kagura.approval.waited": event.waited,
            }
        )
        span.end(nanoseconds(event.at))

    def _leased(self, event: ev.LeaseChanged, run: _Followed) -> None:
        at = nanoseconds(event.at)
        span = run.leases.get(event.lease_id)
        if span is None:
            facts: Attributes = {
                "kagura.lease.id": plain(event.lease_id),
                "kagura.lease.provider": plain(event.provider),
                "kagura.lease.scope": plain(event.scope),
                "kagura.lease.way": plain(event.way),
            }
            span = self._below(run, f"lease {plain(event.provider)}", at, facts)
            run.leases[event.lease_id] = span
        span.add_event(f"lease.{event.change.replace(' ', '_')}", timestamp=at)
        if event.change == "released":
            run.leases.pop(event.lease_id).end(at)

    def _plugin(self, event: ev.PluginCalled, run: _Followed) -> None:
        at = nanoseconds(event.at)
        facts: Attributes = {
            "kagura.plugin.name": plain(event.plugin),
            "kagura.plugin.function": plain(f"{event.module}.{event.function}"),
        }
        span = self._below(run, f"plugin {plain(event.plugin)}", at - int(event.duration * 1e9), facts)
        if not event.ok:
            span.set_attribute("error.type", plain(event.error_code))
            span.set_status(Status(StatusCode.ERROR))
        span.end(at)

    def _hand_on(self, event: ev.ChildStarted, run: _Followed) -> None:
        # The child may have begun before this is stored, so it lies below the run, and the call leads to it.
        context = child_context(run.span.get_span_context(), event.child)
        run.tools.get(event.call_id, run.span).add_link(context, {"kagura.link": "child"})

    # ---------------------------------------------------------------- privates

    def _below(
        self,
        run: _Followed,
        name: str,
        start: int,
        facts: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        under: Span | None = None,
    ) -> Span:
        context = trace.set_span_in_context(under or run.span)
        return self._tracer.start_span(name, context=context, kind=kind, attributes=facts, start_time=start)

    def _told(self, span: Span, attribute: str, text: str, role: str) -> None:
        if self._content is not None and text:
            message = {"role": role, "parts": [{"type": "text", "content": self._clean(text)}]}
            span.set_attribute(attribute, json.dumps([message], ensure_ascii=False))

    def _clean(self, text: str) -> str:
        # Cut only afterwards: half of a secret looks like none.
        return "" if self._content is None else self._content(text)[:LONGEST_TEXT]


def _usage(event: ev.RunFinished | ev.TurnCounted) -> dict[str, int]:
    return {
        "gen_ai.usage.input_tokens": event.input_tokens,
        "gen_ai.usage.output_tokens": event.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": event.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": event.cache_write_tokens,
    }


def _close(run: _Followed, at: int | None) -> None:
    """End a run's span and what is open below it, now or at a time in nanoseconds."""
    for span in (*run.tools.values(), *run.waits.values(), *run.leases.values(), run.span):
        span.end(at)
