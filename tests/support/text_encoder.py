"""An encoder that knows the meaning of the words it was told, and of no others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors.memory import MemoryUnavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NOTHING = 1e-2


class FakeEncoder:
    """`TextEncoder` by hand: texts lie near each other when their words are of one group."""

    def __init__(self, groups: Sequence[Collection[str]], *, model: str = "fake") -> None:
        self.model = model  # Its name
        self.asked: list[str] = []  # Every text that it was asked for, in order
        self.unknown: Collection[str] = ()  # Texts whose language it does not know
        self.fail = False  # Whether it cannot be used
        self._groups = groups

    def understands(self, text: str) -> bool:
        """Whether the text is not among the unknown ones; never while it fails."""
        return not self.fail and text not in self.unknown

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector of length 1 for each text, with a side for each group.

        Raises:
            MemoryUnavailable: it was told to fail.
        """
        import numpy as np

        if self.fail:
            raise MemoryUnavailable("the fake encoder", "it was told to fail", "Tell it otherwise.")
        self.asked += texts
        rows = [
            [sum(word.strip("?!.") in group for word in text.lower().split()) + _NOTHING for group in self._groups]
            for text in texts
        ]
        vectors = np.array(rows, dtype=np.float32)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
