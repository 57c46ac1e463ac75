"""Hiding live secrets in what a box prints, before anyone sees it, stores it, or sends it to a brain.

Streams are scrubbed as they come, also where a secret is cut by the border of two pieces, by line ends, or by what
tools put into a text: indentation, frames, colours. The work is linear in the text; what is held back is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kagura_kernel.membrane.credentials.folding import EXACT, WIDE, cut_mark, has_marks, veiled
from kagura_kernel.membrane.credentials.hiding import LONGEST_GLUE, Hiding, Mark
from kagura_kernel.membrane.credentials.index import NeedleIndex
from kagura_kernel.membrane.credentials.needles import SHORTEST, as_bytes, exact_forms, needles
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret

_AT_LINE_END = 4
_GLUED = 4
_HIDDEN = HIDDEN.encode("ascii")


@dataclass(frozen=True, slots=True)
class LookedFor:
    """The forms of some secrets, ready to be found.

    Attributes:
        exact: Those that would lose too much of themselves in the wide fold, as they are but for line ends.
        wide: All others.
    """

    exact: NeedleIndex
    wide: NeedleIndex

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
        self._needles: tuple[str, ...] = ()
        self._byte_needles: tuple[bytes, ...] = ()
        self._in_text = self._in_bytes = LookedFor.of(())

    def scrub(self, text: str) -> str:
        """A whole text with `(hidden)` for every secret, in whatever usual form."""
        if not self.needles() or not text:
            return text
        stream = self.stream()
        return stream.feed(text) + stream.finish()

    def stream(self) -> ScrubbedStream:
        """For one text that comes in pieces; each stream of output needs its own."""
        return ScrubbedStream(self._for_text)

    def filter(self) -> ScrubbedBytes:
        """For one stream of bytes in whatever encoding; a `domain.commands.OutputFilter`."""
        return ScrubbedBytes(self._for_bytes)

    def search(self) -> SecretSearch:
        """For asking whether a content that comes in pieces holds a secret."""
        return SecretSearch(self._for_bytes)

    def holds(self, data: bytes) -> bool:
        """Whether a whole content holds a secret, in whatever usual form."""
        return self.search().feed(data)

    def needles(self) -> tuple[str, ...]:
        """What is looked for in text just now, without line ends, the longest first."""
        self._refresh()
        return self._needles

    def byte_needles(self) -> tuple[bytes, ...]:
        """What is looked for in bytes just now, without line ends, the longest first."""
        self._refresh()
        return self._byte_needles

    def _for_text(self) -> LookedFor:
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
        self._forms |= set(needles(fresh))
        self._exact |= exact_forms(fresh)
        self._needles = tuple(sorted(self._forms, key=lambda form: (-len(form), form)))
        self._byte_needles = as_bytes(self._needles)
        text = {form.encode("utf-8", "surrogatepass") for form in self._needles}
        exact = {form.encode("utf-8", "surrogatepass") for form in self._exact}
        self._in_text = self._in_bytes = LookedFor.of(text, exact)
        if text != set(self._byte_needles):
            self._in_bytes = LookedFor.of(self._byte_needles, as_bytes(self._exact))
        self._count = len(secrets)


class Covering:
    """One stream of bytes in which something stands for every secret.

    Of a secret that begins in the last three characters of a finished line those three may be seen, and no more.

    Args:
        look_for: Asked for each piece, for there may be more.
        mark: What stands for a secret.
        least: See `Hiding`.
    """

    def __init__(self, look_for: Callable[[], LookedFor], mark: Mark, least: int = 1) -> None:
        self._look_for = look_for
        self._exact = Hiding(mark, least)
        self._plain = Hiding(mark, least)
        self._decorated = Hiding(mark, least)
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
        looked_for = self._look_for()
        if not looked_for:
            return data
        if looked_for.exact or not self._exact.idle:
            data = self._exact.feed(looked_for.exact, data, data)
        return self._without_marks(looked_for.wide, self._plain.feed(looked_for.wide, data, data))

    def finish(self) -> bytes:
        """What was held back; the stream is at its end."""
        looked_for = self._look_for()
        data = self._exact.finish(looked_for.exact)
        data = self._plain.feed(looked_for.wide, data, data) + self._plain.finish(looked_for.wide)
        shown = self._without_marks(looked_for.wide, data)
        cut, self._cut = self._cut, b""
        return shown + self._decorated.feed(looked_for.wide, cut, cut) + self._decorated.finish(looked_for.wide)

    def _without_marks(self, index: NeedleIndex, data: bytes) -> bytes:
        if self._decorated.idle and not self._cut and not has_marks(data):
            self._before = (self._before + data)[-LONGEST_GLUE:]
            return data
        if self._before:
            self._decorated.remember(index, self._before, self._before)
            self._before = b""
        data = self._cut + data
        size = len(data) - cut_mark(data)
        data, self._cut = data[:size], data[size:]
        return self._decorated.feed(index, data, veiled(data))


class ScrubbedBytes(Covering):
    """One stream of bytes, scrubbed like text; every byte that is no part of a secret passes as it is."""

    def __init__(self, look_for: Callable[[], LookedFor]) -> None:
        super().__init__(look_for, lambda _size, again: b"" if again else _HIDDEN, _AT_LINE_END)


class ScrubbedStream:
    """One text. What might be the beginning of a secret is held back until the next piece, or the end, tells."""

    def __init__(self, look_for: Callable[[], LookedFor]) -> None:
        self._bytes = ScrubbedBytes(look_for)
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
