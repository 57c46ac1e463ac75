"""What a plugin prints: the last of it is kept, and one that prints without end is noticed."""

from __future__ import annotations

from kagura_kernel.domain.clock import Clock

BURST = 8 * 2**20
"""Bytes that may come as fast as they like."""

RATE = 2**20
"""Bytes a second in the long run."""


class JailLog:
    """The log of one jail, over all of its boxes.

    Args:
        keep: Bytes.
        clock: Measures how fast they come.
    """

    def __init__(self, keep: int, clock: Clock) -> None:
        self._keep = keep
        self._clock = clock
        self._data = bytearray()
        self._cut = False
        self._owed = 0.0
        self._at = clock.monotonic()

    def add(self, data: bytes) -> bool:
        """Take what was printed; whether it is no more than a log can take."""
        self._data += data[-self._keep :]
        if len(self._data) > self._keep:
            self._cut = True
            del self._data[: len(self._data) - self._keep]
        now = self._clock.monotonic()
        self._owed = max(0.0, self._owed - (now - self._at) * RATE) + len(data)
        self._at = now
        return self._owed <= BURST

    def note(self, text: str) -> None:
        """Add a line of ours."""
        self.add(f"[kagura] {text}\n".encode())

    @property
    def text(self) -> str:
        """All that is kept; whole lines where the beginning was dropped."""
        text = self._data.decode("utf-8", "replace")
        return f"…\n{text.partition(chr(10))[2]}" if self._cut else text
