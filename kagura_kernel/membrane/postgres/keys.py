"""The keys by which programs of one box cancel their own sessions: ours, each standing for a server's.

A program never learns a server's key, so that it can cancel what this box does and nothing else.
"""

from __future__ import annotations

import hmac
import secrets

from kagura_kernel.membrane.postgres.wire import Key


class Keys:
    """Those of one box's sessions that are open."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Key, Key]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def tell(self, real: Key) -> Key:
        """A key to be told in place of the real one, good until it is forgotten."""
        process = 0
        while not process or process in self._open:
            process = secrets.randbits(31)
        told = Key(process, secrets.randbits(32))
        self._open[process] = (told, real)
        return told

    def real(self, told: Key) -> Key | None:
        """The server's key for one that was told; None for every other."""
        known = self._open.get(told.process)
        if known is None:
            return None
        same = hmac.compare_digest(known[0].secret.to_bytes(4), told.secret.to_bytes(4))
        return known[1] if same else None

    def forget(self, told: Key) -> None:
        """Its session is over; may be called twice."""
        self._open.pop(told.process, None)
