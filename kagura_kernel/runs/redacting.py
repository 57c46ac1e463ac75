"""Secrets out of everything that a run says, before it is stored, shown, or told to a brain.

What names things (ids, hashes, paths, words of ours) stays as it is, since others look for exactly that; every other
text is redacted, and so is every text of an event that nobody has thought of here. The project's files, and changes on
their way into it, are not touched. Leased secrets are hidden before this comes; the keys that this process holds for
itself (a model's, a chat's) are hidden here by their value, in names too.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from kagura_kernel.domain.commands import OutputFilter, one_after_another
from kagura_kernel.domain.errors import RedactionUnavailable
from kagura_kernel.domain.events import (
    Event,
    LeaseUsed,
    OutputStreamed,
    ResultShown,
    TextStreamed,
    TextWritten,
    ToolCalled,
    TrustChanged,
)
from kagura_kernel.domain.plugins import PluginFinding
from kagura_kernel.kit.redaction.redactor import RedactedStream, Redactor
from kagura_kernel.membrane.credentials.scrub import ScrubbedStream, Scrubber, scrub_fields
from kagura_kernel.membrane.credentials.secret import Secret, standing_secrets

WITHHELD = "(held back: secrets could not be looked for)"
"""What stands for a text when nobody can say whether it holds a secret."""

LONG = 16 * 1024
"""Characters from which on a text is redacted beside the loop."""

EXACT = frozenset(
    {
        # who and what it is about
        *("run_id", "session_id", "kind", "at", "approval_id", "call_id", "connection_id", "lease_id", "box_id"),
        *("kernel_id", "cell_id", "owner", "user", "brain_session", "subject", "status", "verdict", "via", "flavour"),
        # hashes, which tell whether something is still the same
        *("content_hash", "digest", "definition", "old_sha256", "new_sha256"),
        # places, where others look
        *("project", "notebook", "path", "target", "source", "root", "file", "spill", "place", "image", "protected"),
        *("applied", "discarded", "conflicts", "address", "addresses", "refused_addresses", "permissions"),
        # words of ours, and names
        *("name", "agent", "agents", "tool", "tools", "toolset", "tool_hosts", "protocol", "backend", "isolation"),
        *("brain", "model", "write_mode", "origin", "mime", "stream", "route", "direction", "form", "mode", "state"),
        *("host", "rule", "plugin", "ended", "credentials", "egress", "provider", "scope", "change", "way", "method"),
        *("version", "modules", "module", "function", "signed_by", "error_code", "cost_source", "kinds", "binary"),
        *("severity", "risk", "canaries", "category", "signal"),
    }
)
"""Fields of events and of the rows in them that are told exactly."""

_TEXTS: frozenset[tuple[type, str]] = frozenset({(LeaseUsed, "path"), (PluginFinding, "source")})
"""Fields that are texts although others of their name are exact."""

_DIGESTS: frozenset[tuple[type, str]] = frozenset({(TrustChanged, "task")})
"""Fields that are exact although others of their name are texts."""

_CLEAN: frozenset[tuple[type, str]] = frozenset({(OutputStreamed, "text"), (ResultShown, "data")})
"""Fields that were redacted as a whole before they were cut into events; see `filter` and `words`."""


class Redacting:
    """One run's redaction; on its loop.

    Args:
        redactor: Finds what looks like a secret; None takes none of that out.
        held: Keys that this process holds, which are hidden by their value; only ever more of them.
    """

    def __init__(self, redactor: Redactor | None, held: Callable[[], Sequence[Secret]] = standing_secrets) -> None:
        self._redactor = redactor
        self._held = Scrubber(held)
        self._spoken: _Spoken | None = None

    @property
    def filter(self) -> OutputFilter | None:
        """What each stream of a command goes through before it is heard, kept or spilled."""
        if self._idle:
            return None
        return one_after_another(self._held.filter, self._redactor.byte_filter if self._redactor is not None else None)

    def warm(self) -> None:
        """Begin to prepare, in a thread; returns at once."""
        if self._redactor is not None:
            self._redactor.warm()

    async def ready(self) -> None:
        """Wait, beside the loop, until secrets can be looked for.

        Raises:
            RedactionUnavailable: they cannot, so nothing may be shown.
        """
        if self._redactor is not None and not self._redactor.ready:
            await asyncio.to_thread(self._redactor.wait)

    def text(self, text: str) -> str:
        """A whole text without its secrets."""
        text = self._held.scrub(text)
        if self._redactor is None or not text:
            return text
        try:
            return self._redactor.redact(text).text
        except RedactionUnavailable:
            return WITHHELD

    async def words(self, text: str) -> str:
        """A whole text without its secrets, a long one beside the loop."""
        if self._redactor is None or (len(text) < LONG and self._redactor.ready):
            return self.text(text)
        return await asyncio.to_thread(self.text, text)

    def value(self, value: Any) -> Any:
        """A value made of texts, rows and lists without its secrets; of the same type, and the same object if clean.

        In mappings every text counts, keys too. In rows (dataclasses, models) exact fields stay.
        """
        if self._idle:
            return value
        shown = value
        match value:
            case str():
                text = self.text(value)
                # A text that is more than a text (the word of an enumeration) stays what it is.
                shown = value if text == value else text
            case list() | tuple():
                parts = [self.value(one) for one in value]
                shown = value if all(map(_same, value, parts)) else type(value)(parts)
            case Mapping():
                shown = self._mapping(value)
            case BaseModel():
                if found := self._changed(value, type(value).model_fields):
                    shown = value.model_copy(update=found)
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                if found := self._changed(value, [field.name for field in dataclasses.fields(value)]):
                    shown = dataclasses.replace(value, **found)
        return shown

    def event(self, kind: type[Event], fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of one event without secrets. Of a text that is streamed, what may be seen of it by now."""
        if self._idle:
            return dict(fields)
        fields = {name: scrub_fields(self._held, value) for name, value in fields.items()}
        if kind is TextStreamed:
            return {**fields, "text": self._spoken_on(str(fields.get("text", "")))}
        if kind in (TextWritten, ToolCalled):
            # What was streamed is now told as a whole, or was the end of it.
            self._spoken = None
        return {name: self._field(kind, name, value) for name, value in fields.items()}

    def _field(self, kind: type, name: str, value: Any) -> Any:
        if (kind, name) in _CLEAN or is_exact(kind, name):
            return value
        if name not in _FREE and isinstance(value, list | tuple):
            return type(value)(self._listed(one) for one in value)
        return self.value(value)

    def _listed(self, value: Any) -> Any:
        """One row of an event's list; where it is a mapping, its keys are the names of fields."""
        if isinstance(value, Mapping):
            return {name: one if is_exact(dict, str(name)) else self.value(one) for name, one in value.items()}
        return self.value(value)

    def _changed(self, row: Any, names: Iterable[str]) -> dict[str, Any]:
        """What of a row's fields is shown otherwise than it is."""
        texts = [name for name in names if not is_exact(type(row), name)]
        shown = {name: self.value(getattr(row, name)) for name in texts}
        return {name: one for name, one in shown.items() if not _same(one, getattr(row, name))}

    def _mapping(self, value: Mapping[Any, Any]) -> Any:
        scrubbed = scrub_fields(self._held, value)
        value = value if scrubbed == value else scrubbed
        try:
            return self._redactor.fields(value) if self._redactor is not None else value
        except RedactionUnavailable:
            return {WITHHELD: ""}

    def _spoken_on(self, piece: str) -> str:
        if self._spoken is None:
            self._spoken = _Spoken(self._held.stream(), self._redactor.stream() if self._redactor is not None else None)
        try:
            return self._spoken.feed(piece)
        except RedactionUnavailable:
            return ""

    @property
    def _idle(self) -> bool:
        """Whether there is nothing to look for."""
        return self._redactor is None and not self._held.needles()


class _Spoken:
    """One text that is streamed."""

    def __init__(self, held: ScrubbedStream, redacted: RedactedStream | None) -> None:
        self._held = held
        self._redacted = redacted

    def feed(self, piece: str) -> str:
        """What may be seen after this piece; raises `RedactionUnavailable`."""
        piece = self._held.feed(piece)
        return piece if self._redacted is None else self._redacted.feed(piece)


_FREE = frozenset({"arguments", "config"})
"""Fields whose keys are somebody else's words."""


def is_exact(kind: type, name: str) -> bool:
    """Whether a field of an event, or of a row in it, is told exactly."""
    return (kind, name) in _DIGESTS or (name in EXACT and (kind, name) not in _TEXTS)


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str | int | float | None) and bool(one == other))
