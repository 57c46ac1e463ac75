"""Keeping an upstream from handing the secret back: its bytes become as many `*`, also across the borders of chunks.

Lengths stay the same, so that a length that was announced stays true. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kagura_kernel.membrane.credentials.needles import needles
from kagura_kernel.membrane.credentials.secret import Secret


class Forms:
    """The bytes in which the secrets of one lease turn up, old ones included; it only grows."""

    def __init__(self) -> None:
        self._secrets: list[Secret] = []
        self._forms: tuple[bytes, ...] = ()

    def add(self, secrets: Sequence[Secret]) -> None:
        """Know these too."""
        fresh = [secret for secret in secrets if secret not in self._secrets]
        if fresh:
            self._secrets += fresh
            self._forms = tuple(form.encode("utf-8", "surrogatepass") for form in needles(self._secrets))

    def __call__(self) -> tuple[bytes, ...]:
        """All of them, the longest first."""
        return self._forms

    def hide(self, data: bytes) -> bytes:
        """A whole text."""
        censor = Censor(self)
        return censor.feed(data) + censor.finish()


class Censor:
    """One body. What might be the beginning of a secret waits for the next chunk, or the end.

    Args:
        forms: What is looked for; asked for each chunk, for there may be more.
    """

    def __init__(self, forms: Callable[[], Sequence[bytes]]) -> None:
        self._forms = forms
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What may pass after this chunk."""
        text = self._held + data
        forms = self._forms()
        spans = _spans(text, forms)
        cut = _held_from(text, forms)
        for start, end in reversed(spans):
            if start < cut < end:
                cut = start
        self._held = text[cut:]
        return _covered(text[:cut], [span for span in spans if span[1] <= cut])

    def finish(self) -> bytes:
        """What was held back."""
        text, self._held = self._held, b""
        return _covered(text, _spans(text, self._forms()))


def _spans(text: bytes, forms: Sequence[bytes]) -> list[tuple[int, int]]:
    """Where any of these stands, in order; those of different forms may overlap."""
    spans: list[tuple[int, int]] = []
    for form in forms:
        at = text.find(form)
        while at >= 0:
            spans.append((at, at + len(form)))
            at = text.find(form, at + len(form))
    return sorted(spans)


def _held_from(text: bytes, forms: Sequence[bytes]) -> int:
    earliest = len(text)
    for form in forms:
        at = text.find(form[:1], max(0, len(text) - len(form) + 1))
        while 0 <= at < earliest:
            if form.startswith(text[at:]):
                earliest = at
            else:
                at = text.find(form[:1], at + 1)
    return earliest


def _covered(text: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    if not spans:
        return text
    covered = bytearray(text)
    for start, end in spans:
        covered[start:end] = b"*" * (end - start)
    return bytes(covered)
