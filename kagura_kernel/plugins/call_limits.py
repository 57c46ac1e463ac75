"""How much one run may ask of its plugins at once, and the room that long requests and answers share."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from kagura_kernel.plugins import framing


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The limits on one run's calls to all of its plugins."""

    # At once. One more takes the place of one on which no call is under way, if there is such a one.
    connections: int = 256
    connection_rate: float = 200.0  # New connections a second, in the long run. What comes faster waits.
    connection_burst: int = 512  # New connections that may come as fast as they like before that holds
    calls: int = 32  # Under way at once, from the request to the last byte of the answer that the program takes
    calls_a_connection: int = 8  # Likewise, on one connection
    frame_bytes: int = framing.MAX_BYTES  # A request or an answer
    small: int = 64 * 1024  # Frames up to this length need no room
    # Bytes of all longer requests together until their calls have ended, and likewise of all longer answers
    room: int = 8 * 2**20
    # Calls a second, in the long run; a request or an answer that is long, or holds many values, counts as several:
    # reading it takes time that others wait for. What comes faster waits.
    rate: float = 2000.0
    burst: int = 4000  # Calls that may come as fast as they like before `rate` holds
    frame_seconds: float = 30.0  # Until a frame that has begun is whole
    # Until a plugin has answered, all waiting included. Its jail has a shorter limit of its own.
    call_seconds: float = 300.0
    answer_seconds: float = 30.0  # Until the program has taken an answer
    total: int = 250_000  # Calls of the whole run; each is a row of the journal
    refusals: int = 100  # Calls of what there is not that are recorded one by one


class Room:
    """So many bytes that may be held at once; whoever comes first has them first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, count: int) -> int:
        """Wait for so many bytes of it, at most all there are; how many were taken, to be given back."""
        count = min(count, self._size)
        if not self._waiting and count <= self._free:
            self._free -= count
            return count
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free += count
            self._waiting = deque(one for one in self._waiting if one[1] is not turn)
            self._hand_out()
            raise
        return count

    def give(self, count: int) -> None:
        """So many are free again."""
        self._free += count
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            count, turn = self._waiting.popleft()
            if not turn.done():
                self._free -= count
                turn.set_result(None)
