"""One stream of bytes with the needles of one index hidden in it.

Each byte is looked at a fixed number of times, whatever is held back: while a beginning goes on, only what is new is
compared with the needles that it can still become. The rest is searched again only when it has turned out to be none.
"""

from __future__ import annotations

from collections.abc import Callable

from kagura_kernel.membrane.credentials.folding import Places
from kagura_kernel.membrane.credentials.index import NeedleIndex

Mark = Callable[[int, bool], bytes]
"""What stands for so many hidden bytes; and whether they belong to what was hidden just before."""

_LINE_ENDS = (b"\r", b"\n")
LONGEST_GLUE = 256
"""Bytes that do not count, between two that do, for which a beginning is still held back."""


class Hiding:
    """What might be the beginning of a needle is held back until the next piece, or the end, tells.

    Args:
        mark: What stands for a needle.
        least: At a line end, beginnings of fewer bytes are shown: otherwise a finished line would often wait for the
            next one. They still count as the beginning.
    """

    def __init__(self, mark: Mark, least: int = 1) -> None:
        self._mark = mark
        self._least = least
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

    def remember(self, index: NeedleIndex, raw: bytes, text: bytes) -> None:
        """Something was shown already, in which a needle may have begun."""
        self._look(index, raw, text, passed=len(raw))

    def feed(self, index: NeedleIndex, raw: bytes, text: bytes) -> bytes:
        """What may be seen after these bytes.

        Args:
            index: What is looked for; may be another one each time.
            raw: What came,
            text: and as many bytes for it in which to look.
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
                shown += (raw[done:first], self._mark(last - (done if again else max(first, done)), again))
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
        if len(self._flat) < self._least and self._raw[-1:] in _LINE_ENDS:
            rest = bytes(self._raw[self._passed :])
            self._passed = len(self._raw)
            return rest
        return b""
