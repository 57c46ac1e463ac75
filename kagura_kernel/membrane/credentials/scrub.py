"""Hiding live secrets in what a box prints, before anyone sees it, stores it, or sends it to a brain.

Streams are scrubbed as they come, also where a secret is cut by the border of two pieces, by line ends, or by what
tools put into a text: indentation, frames, colours. The work is linear in the text; what is held back is bounded: while
a beginning goes on, only what is new is compared with the needles that it can still become, and the rest is searched
again only when it has turned out to be none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kagura_kernel.domain.commands import Command, CommandResult, OutputFilter, OutputListener, one_after_another
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.tools import FileSystem
from kagura_kernel.membrane.credentials.needles import (
    EXACT,
    SHORTEST,
    WIDE,
    NeedleIndex,
    Places,
    as_bytes,
    cut_mark,
    exact_forms,
    has_marks,
    needles,
    veiled,
)
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret
from kagura_kernel.sandbox.backend import Box, BoxChange, Failed, Listener, ServeStream

Mark = Callable[[int, bool], bytes]
"""What stands for so many hidden bytes; and whether they belong to what was hidden just before."""

_LINE_ENDS = (b"\r", b"\n")
LONGEST_GLUE = 256
"""Bytes that do not count, between two that do, for which a beginning is still held back."""


@dataclass(eq=False, repr=False)
class Hiding:
    """What might be the beginning of a needle is held back until the next piece, or the end, tells."""

    mark: Mark  # What stands for a needle
    # At a line end, beginnings of fewer bytes are shown: otherwise a finished line would often wait for the next one.
    # They still count as the beginning.
    least: int = 1

    def __post_init__(self) -> None:
        self._index: NeedleIndex | None = None
        self.found = False
        """Whether anything has been hidden yet."""
        self._forget()

    def _forget(self) -> None:
        self._raw, self._text, self._flat = bytearray(), bytearray(), bytearray()
        self._passed = 0
        """How many bytes of `raw` have been answered, shown or hidden."""
        self._hidden = 0
        """How many bytes of `flat` belong to a needle that was hidden."""
        self._viable: list[bytes] = []

    @property
    def idle(self) -> bool:
        """Whether nothing that came before matters any more."""
        return not self._raw

    @property
    def next(self) -> bytes:
        """The first byte that is held back; empty where none is."""
        return bytes(self._raw[self._passed :][:1])

    def remember(self, index: NeedleIndex, raw: bytes, text: bytes) -> None:
        """Something was shown already, in which a needle may have begun."""
        self._look(index, raw, text, passed=len(raw))

    def feed(self, index: NeedleIndex, raw: bytes, text: bytes) -> bytes:
        """What may be seen after these bytes.

        `text` is as many bytes as came in `raw`, in which to look. The index may be another one each time.
        """
        if self._raw and index is self._index:
            fresh = index.fold(text)
            known = len(self._flat)
            self._viable = still = [
                needle
                for needle in self._viable
                if len(needle) > known + len(fresh) and needle.startswith(fresh, known)
            ]
            if still:
                self._raw += raw
                self._text += text
                self._flat += fresh
                return self._kept()
        return self._look(index, raw, text)

    def finish(self, index: NeedleIndex) -> bytes:
        """What was held back; the stream is at its end."""
        return self._look(index, b"", b"", whole=True) if self._raw else b""

    def _look(self, index: NeedleIndex, raw: bytes, text: bytes, *, whole: bool = False, passed: int = 0) -> bytes:
        raw, text = bytes(self._raw) + raw, bytes(self._text) + text
        done, hidden = max(self._passed, passed), self._hidden
        flat = index.fold(text)
        spans, held = index.look(flat, text)
        held = len(flat) if whole else held
        place = Places(text, index.fold).of
        shown: list[bytes] = []
        for start, end in spans:
            # What lies within a beginning waits with it; what reaches into one is hidden now.
            if start >= held or end <= hidden:
                continue
            first, last = place(start), place(end - 1) + 1
            if last > done:
                again = start < hidden
                shown += (raw[done:first], self.mark(last - (done if again else max(first, done)), again))
                done, self.found = last, True
            hidden = end
        if held == len(flat):
            shown.append(raw[done:])
            self._forget()
            return b"".join(shown)
        at = place(held)
        shown.append(raw[done:at])
        self._index, self._raw, self._text = index, bytearray(raw[at:]), bytearray(text[at:])
        self._flat, self._viable = bytearray(flat[held:]), index.beginnings(flat[held:])
        self._passed, self._hidden = max(done - at, 0), max(hidden - held, 0)
        shown.append(self._kept())
        return b"".join(shown)

    def _kept(self) -> bytes:
        """What need not be held back after all."""
        index = self._index
        if index is None or not self._raw:
            return b""
        glue = len(self._text) - len(self._text.rstrip(index.fold.dropped))
        # Line ends without number: no program means them, and what is held back may not fill the memory.
        if glue > LONGEST_GLUE or len(self._raw) > 4 * (index.longest + LONGEST_GLUE):
            return self._look(index, b"", b"", whole=True)
        if len(self._flat) < self.least and self._raw[-1:] in _LINE_ENDS:
            rest = bytes(self._raw[self._passed :])
            self._passed = len(self._raw)
            return rest
        return b""


_AT_LINE_END = 4
_GLUED = 4
_HIDDEN = HIDDEN.encode("ascii")


def _hidden(_size: int, again: bool) -> bytes:
    return b"" if again else _HIDDEN


@dataclass(frozen=True, slots=True)
class LookedFor:
    """The forms of some secrets, ready to be found."""

    exact: NeedleIndex  # Those that would lose too much of themselves in the wide fold, as they are but for line ends
    wide: NeedleIndex  # All others

    @classmethod
    def of(cls, forms: Iterable[bytes], exact: Iterable[bytes] = ()) -> LookedFor:
        """From forms without line ends; those that are exact need not be among the others."""
        narrow = set(exact)
        wide: set[bytes] = set()
        for form in forms:
            left = len(WIDE(form))
            (wide if left >= SHORTEST and 2 * left >= len(form) else narrow).add(form)
        return cls(NeedleIndex(narrow, EXACT, strict=False), NeedleIndex(wide, WIDE, strict=True))

    def __bool__(self) -> bool:
        return bool(self.exact) or bool(self.wide)


class Scrubber:
    """Knows what must not be shown. What it is told of later counts from the next piece of text on."""

    def __init__(self, secrets: Callable[[], Sequence[Secret]]) -> None:
        """A scrubber for secrets that may become more.

        Args:
            secrets: All of them so far, in the order they came; only ever longer. `CredentialBroker.seen_secrets`.
        """
        self._secrets = secrets
        self._count = 0
        self._forms: set[str] = set()
        self._exact: set[str] = set()
        self._in_text = self._in_bytes = LookedFor.of(())

    def scrub(self, text: str) -> str:
        """A whole text with `(hidden)` for every secret, in whatever usual form."""
        if not self.for_text() or not text:
            return text
        stream = self.stream()
        return stream.feed(text) + stream.finish()

    def stream(self) -> ScrubbedStream:
        """For one text that comes in pieces; each stream of output needs its own."""
        return ScrubbedStream(self.for_text)

    def filter(self) -> Covering:
        """For one stream of bytes in whatever encoding; every byte that is no part of a secret passes as it is."""
        return Covering(self._for_bytes, _hidden, _AT_LINE_END)

    def search(self) -> SecretSearch:
        """For asking whether a content that comes in pieces holds a secret."""
        return SecretSearch(self._for_bytes)

    def holds(self, data: bytes) -> bool:
        """Whether a whole content holds a secret, in whatever usual form."""
        return self.search().feed(data)

    def for_text(self) -> LookedFor:
        """What is looked for in text just now; false where there is no secret."""
        self._refresh()
        return self._in_text

    def _for_bytes(self) -> LookedFor:
        self._refresh()
        return self._in_bytes

    def _refresh(self) -> None:
        secrets = self._secrets()
        if len(secrets) == self._count:
            return
        fresh = secrets[self._count :]
        self._forms |= needles(fresh)
        self._exact |= exact_forms(fresh)
        text = {form.encode("utf-8", "surrogatepass") for form in self._forms}
        exact = {form.encode("utf-8", "surrogatepass") for form in self._exact}
        self._in_text = self._in_bytes = LookedFor.of(text, exact)
        if (in_bytes := as_bytes(self._forms)) != text:
            self._in_bytes = LookedFor.of(in_bytes, as_bytes(self._exact))
        self._count = len(secrets)


@dataclass(eq=False, repr=False)
class Covering:
    """One stream of bytes in which something stands for every secret.

    Of a secret that begins in the last three characters of a finished line those three may be seen, and no more.
    """

    look_for: Callable[[], LookedFor]  # Asked for each piece, for there may be more
    mark: Mark  # What stands for a secret
    least: int = 1  # See `Hiding`

    def __post_init__(self) -> None:
        self._exact = Hiding(self.mark, self.least)
        self._plain = Hiding(self.mark, self.least)
        self._decorated = Hiding(self.mark, self.least)
        self._cut = b""
        """The beginning of a decoration, perhaps."""
        self._before = b""
        """The last that was shown without a look at decorations."""

    @property
    def found(self) -> bool:
        """Whether there has been a secret."""
        return self._exact.found or self._plain.found or self._decorated.found

    def feed(self, data: bytes) -> bytes:
        """What may be seen after these bytes; the rest follows later."""
        looked_for = self.look_for()
        if not looked_for:
            return data
        if looked_for.exact or not self._exact.idle:
            data = self._exact.feed(looked_for.exact, data, data)
        return self._without_marks(looked_for.wide, self._plain.feed(looked_for.wide, data, data))

    async def ready(self) -> None:
        """At once: it knows what it looks for."""

    def finish(self) -> bytes:
        """What was held back; the stream is at its end."""
        looked_for = self.look_for()
        data = self._exact.finish(looked_for.exact)
        data = self._plain.feed(looked_for.wide, data, data) + self._plain.finish(looked_for.wide)
        shown = self._without_marks(looked_for.wide, data)
        cut, self._cut = self._cut, b""
        return shown + self._decorated.feed(looked_for.wide, cut, cut) + self._decorated.finish(looked_for.wide)

    def _without_marks(self, index: NeedleIndex, data: bytes) -> bytes:
        # What is held back may begin a decoration, behind which what is shown here would go on.
        if self._decorated.idle and not self._cut and not has_marks(data + self._plain.next):
            self._before = (self._before + data)[-LONGEST_GLUE:]
            return data
        if self._before:
            self._decorated.remember(index, self._before, self._before)
            self._before = b""
        data = self._cut + data
        size = len(data) - cut_mark(data)
        data, self._cut = data[:size], data[size:]
        return self._decorated.feed(index, data, veiled(data))


class ScrubbedStream:
    """One text. What might be the beginning of a secret is held back until the next piece, or the end, tells."""

    def __init__(self, look_for: Callable[[], LookedFor]) -> None:
        self._bytes = Covering(look_for, _hidden, _AT_LINE_END)
        self._cut = b""

    def feed(self, piece: str) -> str:
        """What may be shown after this piece; the rest follows later."""
        return self._text(self._bytes.feed(piece.encode("utf-8", "surrogatepass")))

    def finish(self) -> str:
        """What was held back; the stream is at its end."""
        return self._text(self._bytes.finish())

    def _text(self, data: bytes) -> str:
        # A frame may have been cut in the middle of its character.
        data = self._cut + data
        size = len(data) - (cut_mark(data) if data[-1:] >= b"\x80" else 0)
        self._cut = data[size:]
        return data[:size].decode("utf-8", "surrogatepass")


class SecretSearch:
    """Whether one content, which comes in pieces, holds a secret; meant for large pieces, as files are read."""

    def __init__(self, look_for: Callable[[], LookedFor]) -> None:
        self._look_for = look_for
        self._tail = b""
        self._found = False

    def feed(self, piece: bytes) -> bool:
        """Whether a secret has been found up to here."""
        looked_for = self._look_for()
        if self._found or not looked_for:
            return self._found
        text = self._tail + piece
        self._found = bool(_spans(looked_for.exact, text) or _spans(looked_for.wide, text)) or (
            has_marks(text) and bool(_spans(looked_for.wide, veiled(text)))
        )
        self._tail = text[-(_GLUED * max(looked_for.exact.longest, looked_for.wide.longest) + LONGEST_GLUE) :]
        return self._found


def _spans(index: NeedleIndex, text: bytes) -> list[tuple[int, int]]:
    return index.look(index.fold(text), text)[0] if index else []


def scrub_fields(scrubber: Scrubber, value: Any) -> Any:
    """The same value with `(hidden)` for every secret in its texts, keys included.

    Mappings become dicts, lists stay lists and tuples tuples; bytes are scrubbed too, and everything else is passed on
    as it is. Keys that become the same are numbered. Without a secret to look for, the value itself is returned.
    """
    if not scrubber.for_text():
        return value
    match value:
        case str():
            shown = scrubber.scrub(value)
            # A text that is more than a text (the word of an enumeration) stays what it is.
            return value if shown == value else shown
        case bytes():
            stream = scrubber.filter()
            return stream.feed(value) + stream.finish()
        case Mapping():
            return _mapping(scrubber, value)
        case list() | tuple():
            found = [scrub_fields(scrubber, one) for one in value]
            return found if isinstance(value, list) else tuple(found)
        case _:
            return value


def _mapping(scrubber: Scrubber, value: Mapping[Any, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, one in value.items():
        shown = base = scrub_fields(scrubber, key)
        number = 1
        while shown in found:
            number += 1
            shown = f"{base} {number}"
        found[shown] = scrub_fields(scrubber, one)
    return found


@dataclass(eq=False, repr=False)
class ScrubbedBox:
    """A box around a box. Output goes through the scrubber, and so does why it died; files pass as they are."""

    box: Box  # Does the work
    scrubber: Scrubber  # Knows what must not be shown
    after: OutputFilter | None = None  # What output goes through when nothing leased is in it any more
    # By which commands find what was granted, asked for at each command; without secrets
    variables: Callable[[], Mapping[str, str]] = dict

    def __post_init__(self) -> None:
        box = self.box
        self.id, self.backend, self.isolation, self.image = box.id, box.backend, box.isolation, box.image
        self.warm, self.notes = box.warm, box.notes

    @property
    def files(self) -> FileSystem:
        """As the box within: what a tool says of a file is scrubbed where it says it."""
        return self.box.files

    async def run(self, command: Command, on_output: OutputListener | None = None) -> CommandResult:
        """As the box within, with the run's variables; a command's own win.

        What is heard, kept and spilled has passed the scrubber behind the command's own filter, which could make a
        secret whole.
        """
        filters = one_after_another(command.output_filter, self.scrubber.filter, self.after)
        variables = {**self.variables(), **command.env}
        return await self.box.run(replace(command, env=variables, output_filter=filters), on_output)

    async def changes(self) -> list[BoxChange]:
        """As the box within; whoever collects them looks for secrets."""
        return await self.box.changes()

    async def listen(self, listener: Listener, serve: ServeStream, failed: Failed | None = None) -> int:
        """As the box within."""
        return await self.box.listen(listener, serve, failed)

    async def wait_closed(self) -> str:
        """As the box within: the last words of a box may be anything."""
        return self.scrubber.scrub(await self.box.wait_closed())

    async def close(self) -> None:
        """Close the box within."""
        await self.box.close()
