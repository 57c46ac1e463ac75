"""Secrets out of everything that a run says, before it is stored, shown, or told to a brain.

What names things (ids, hashes, paths, words of ours) stays as it is, since others look for exactly that; every other
text is redacted, and so is every text of an event that nobody has thought of here. The project's files, and changes on
their way into it, are not touched. Leased secrets are hidden before this comes; the keys that this process holds for
itself (a model's, a chat's) are hidden here by their value, in names too.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from kagura_kernel.domain.commands import OutputFilter, one_after_another
from kagura_kernel.domain.errors import RedactionUnavailable
from kagura_kernel.domain.events import (
    BrainSigned,
    Event,
    OutputStreamed,
    ResultShown,
    TextStreamed,
    TextWritten,
    ToolCalled,
)
from kagura_kernel.domain.identity import EXACT
from kagura_kernel.kit.redaction.redactor import RedactedStream, Redactor
from kagura_kernel.kit.redaction.visible import plainly_harmless
from kagura_kernel.membrane.credentials.scrub import ScrubbedStream, Scrubber, scrub_fields
from kagura_kernel.membrane.credentials.secret import Secret, standing_secrets

WITHHELD = "(held back: secrets could not be looked for)"
"""What stands for a text when nobody can say whether it holds a secret."""

LONG = 16 * 1024
"""Characters from which on a text is redacted beside the loop."""

_CLEAN: frozenset[tuple[type, str]] = frozenset({(OutputStreamed, "text"), (ResultShown, "data")})
"""Fields that were redacted as a whole before they were cut into events; see `filter` and `words`."""


class Redacting:
    """One run's redaction; on its loop.

    Args:
        redactor: Finds what looks like a secret.
        held: Keys that this process holds, which are hidden by their value; only ever more of them.
    """

    def __init__(self, redactor: Redactor, held: Callable[[], Sequence[Secret]] = standing_secrets) -> None:
        self._redactor = redactor
        self._held = Scrubber(held)
        self._spoken: dict[type[Event], _Spoken] = {}

    @property
    def filter(self) -> OutputFilter | None:
        """What each stream of a command goes through before it is heard, kept or spilled."""
        return one_after_another(self._held.filter, self._redactor.byte_filter)

    def warm(self) -> None:
        """Begin to prepare, in a thread; returns at once."""
        self._redactor.warm()

    async def ready(self) -> None:
        """Wait, beside the loop, until secrets can be looked for.

        Raises:
            RedactionUnavailable: they cannot, so nothing may be shown.
        """
        if not self._redactor.ready:
            await asyncio.to_thread(self._redactor.wait)

    async def ready_for(self, *texts: str) -> None:
        """As `ready`, where one of these texts could hold a secret; one that cannot be looked through is withheld."""
        if self._redactor.ready:
            return
        if not all(plainly_harmless(text.encode("utf-8", "surrogatepass")) for text in texts):
            with contextlib.suppress(RedactionUnavailable):
                await self.ready()

    def text(self, text: str) -> str:
        """A whole text without its secrets."""
        try:
            return self._redactor.redact(self._held.scrub(text)).text
        except RedactionUnavailable:
            return WITHHELD

    async def words(self, text: str) -> str:
        """A whole text without its secrets, a long one beside the loop."""
        if len(text) < LONG and self._redactor.ready:
            return self.text(text)
        return await asyncio.to_thread(self.text, text)

    def value(self, value: Any) -> Any:
        """A value made of texts, rows and lists without its secrets; of the same type, and the same object if clean.

        In mappings every text counts, keys too. In rows (dataclasses, models) exact fields stay.
        """
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
        if self._held.for_text():
            fields = {name: scrub_fields(self._held, value) for name, value in fields.items()}
        if kind is TextStreamed or (kind is BrainSigned and fields.get("what") == "thinking"):
            return {**fields, "text": self._spoken_on(kind, str(fields.get("text", "")))}
        if kind in (TextWritten, ToolCalled):
            # What was streamed is now told as a whole, or was the end of it.
            self._spoken.clear()
        return {name: self._field(kind, name, value) for name, value in fields.items()}

    def _field(self, kind: type, name: str, value: Any) -> Any:
        return value if (kind, name) in _CLEAN or name in exact_fields(kind) else self.value(value)

    def _changed(self, row: Any, names: Iterable[str]) -> dict[str, Any]:
        """What of a row's fields is shown otherwise than it is."""
        exact = exact_fields(row.__class__)
        texts = [name for name in names if name not in exact]
        shown = {name: self.value(getattr(row, name)) for name in texts}
        return {name: one for name, one in shown.items() if not _same(one, getattr(row, name))}

    def _mapping(self, value: Mapping[Any, Any]) -> Any:
        scrubbed = scrub_fields(self._held, value)
        value = value if scrubbed == value else scrubbed
        try:
            return self._redactor.fields(value)
        except RedactionUnavailable:
            return {WITHHELD: ""}

    def _spoken_on(self, kind: type[Event], piece: str) -> str:
        if kind not in self._spoken:
            self._spoken[kind] = _Spoken(self._held.stream(), self._redactor.stream())
        try:
            return self._spoken[kind].feed(piece)
        except RedactionUnavailable:
            return ""


class _Spoken:
    """One text that is streamed."""

    def __init__(self, held: ScrubbedStream, redacted: RedactedStream) -> None:
        self._held = held
        self._redacted = redacted

    def feed(self, piece: str) -> str:
        """What may be seen after this piece; raises `RedactionUnavailable`."""
        return self._redacted.feed(self._held.feed(piece))


@cache
def exact_fields(kind: type) -> frozenset[str]:
    """The fields of an event, or of a row in it, that are told exactly: their texts are marked so, or fixed words."""
    return frozenset(name for name, hint in _hints(kind).items() if not _has_text(hint))


def _has_text(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return EXACT not in hint.__metadata__ and _has_text(hint.__origin__)
    if get_origin(hint) in (Literal, ClassVar):
        return False
    if parts := get_args(hint):
        return any(map(_has_text, parts))
    if _is_row(hint):
        return any(map(_has_text, _hints(hint).values()))
    return hint in (str, Any)


def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _is_row(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, BaseModel))


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str | int | float | None) and bool(one == other))
