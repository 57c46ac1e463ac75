"""Ids and words of telemetry: derived from a run's own, so that nothing has to be carried from process to process."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime

from kagura_kernel.domain.events import ToolCalled, ToolFinished

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


def tool_name(event: ToolCalled | ToolFinished) -> str:
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
