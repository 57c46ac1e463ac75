"""Where the span of a run lies: known from the run's id alone, before and after it is made, and in other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import SpanContext, TraceFlags

from kagura_kernel.telemetry.naming import span_id, trace_id

if TYPE_CHECKING:
    from opentelemetry.context import Context

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class RunIds(IdGenerator):
    """Gives the ids that are wanted next, and random ones otherwise; for one thread.

    Attributes:
        next_trace: Of the next span without a parent; 0 for a random one.
        next_span: Of the next span; 0 for a random one.
    """

    def __init__(self) -> None:
        self.next_trace = 0
        self.next_span = 0
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
    """Where the span of a run lies, whichever process makes it.

    Args:
        run_id: The run.
        first: The run in whose trace it lies.
    """
    return SpanContext(trace_id(first), span_id(run_id), is_remote=True, trace_flags=_SAMPLED)


def child_context(parent: SpanContext, run_id: str) -> SpanContext:
    """Where the span of a run lies that works for another one."""
    return SpanContext(parent.trace_id, span_id(run_id), is_remote=True, trace_flags=parent.trace_flags)
