"""Keeping an upstream from handing the secret back: its bytes become as many `*`, also across the borders of chunks.

Lengths stay the same, so that a length that was announced stays true. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.membrane.credentials.needles import exact_forms, needles
from kagura_kernel.membrane.credentials.scrub import Covering, LookedFor
from kagura_kernel.membrane.credentials.secret import Secret


class Forms:
    """The bytes in which the secrets of one lease turn up, old ones included; it only grows."""

    def __init__(self) -> None:
        self._secrets: list[Secret] = []
        self._forms = LookedFor.of(())

    def add(self, secrets: Sequence[Secret]) -> None:
        """Know these too."""
        fresh = [secret for secret in secrets if secret not in self._secrets]
        if fresh:
            self._secrets += fresh
            self._forms = LookedFor.of(_encoded(needles(self._secrets)), _encoded(exact_forms(self._secrets)))

    def __call__(self) -> LookedFor:
        """All of them."""
        return self._forms

    def hide(self, data: bytes) -> bytes:
        """A whole text."""
        censor = Censor(self)
        return censor.feed(data) + censor.finish()


class Censor(Covering):
    """One body. What might be the beginning of a secret waits for the next chunk, or the end.

    Args:
        forms: What is looked for; asked for each chunk, for there may be more.
    """

    def __init__(self, forms: Forms) -> None:
        super().__init__(forms, lambda size, _again: b"*" * size)


def _encoded(forms: Sequence[str] | set[str]) -> set[bytes]:
    return {form.encode("utf-8", "surrogatepass") for form in forms}
