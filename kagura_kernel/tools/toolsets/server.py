"""One toolset's server: started in the box, asked, given up when it breaks a limit. The run goes on in any case."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ToolsetError
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.tools.toolsets.boxed import Boxed
from kagura_kernel.tools.toolsets.cutting import Cutter
from kagura_kernel.tools.toolsets.limits import ToolsetLimits
from kagura_kernel.tools.toolsets.peer import Asked, Failed, Gone, Peer, Told

T = TypeVar("T")

_GONE_ADVICE = "It is not started again in this run; go on without its tools."

GaveUp = Callable[["Server", int], Coroutine[Any, Any, None]]
"""Tells a server that the answer to the request of this number is not waited for any more."""

Proof = Callable[["Server"], Coroutine[Any, Any, bool]]
"""Whether a server that has let a call run out still answers."""


@dataclass(frozen=True, slots=True)
class Speech:
    """What a protocol adds to a conversation.

    Attributes:
        cutter: How messages are told apart.
        told: Hears notifications.
        asked: Answers the server's requests.
        gave_up: Tells the server, in the protocol's words, that an answer is not waited for.
        proof: Asks it for a sign of life.
    """

    cutter: Cutter
    told: Told
    asked: Asked
    gave_up: GaveUp
    proof: Proof


class Server:
    """A server that answers requests; made and used on the box's loop.

    Args:
        name: The toolset's.
        box: The run's.
        start: What the bridge is told.
        speech: What its protocol adds.
        over: Told once when it is over, why, half a sentence; also when it was closed.
        clock: The time.
        limits: On all of it.
    """

    def __init__(
        self,
        name: str,
        box: Box,
        start: Mapping[str, Any],
        speech: Speech,
        *,
        over: Callable[[str], None],
        clock: Clock,
        limits: ToolsetLimits,
    ) -> None:
        self.name = name
        self.limits = limits
        self._clock = clock
        self._over = over
        self._speech = speech
        self._farewells: set[asyncio.Task[None]] = set()
        self._boxed = Boxed(name, box, start, self._heard, self._ended, clock=clock, log_bytes=limits.log_bytes)
        self._peer = Peer(
            speech.cutter, self._boxed.write, told=speech.told, asked=speech.asked, limits=limits, clock=clock
        )
        self._slots = asyncio.Semaphore(limits.calls)
        self._under_way = 0

    @property
    def log(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._boxed.log

    @property
    def ending(self) -> str:
        """Why it is over, half a sentence; empty while it is not."""
        return self._boxed.ending

    async def open(self) -> None:
        """Start it.

        Raises:
            ToolsetError: it is over before it has connected.
            SandboxError: the box is gone.
        """
        await self._boxed.open()
        if self.ending:
            raise ToolsetError(self.name, f"could not be started: {self.ending}")

    async def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what a start takes, all of it within the time that a start may take; else the server is given up.

        Raises:
            ToolsetError: there was not enough time; or as the work does.
        """
        try:
            await self._within(self.limits.start_seconds, work)
        except TimeoutError as error:
            self.end("it took too long to begin")
            raise ToolsetError(
                self.name, f"could not be started: it did not answer within {self.limits.start_seconds:g} s"
            ) from error

    async def call(self, method: str, params: Mapping[str, Any], seconds: float | None = None) -> Any:
        """The answer to a request that may have to wait for its turn.

        Args:
            method: In the protocol's words.
            params: What goes with it.
            seconds: Until it is given up; None is the limits'.

        Raises:
            Failed: the server answered with an error.
            ToolsetError: it is gone, too busy, or did not answer in time.
        """
        if self._under_way >= self.limits.calls + self.limits.waiting:
            raise ToolsetError(self.name, f"has {self._under_way} calls waiting already", "Wait for some, then retry.")
        self._under_way += 1
        try:
            async with self._slots:
                return await self.ask(method, params, seconds)
        finally:
            self._under_way -= 1

    async def ask(self, method: str, params: Mapping[str, Any], seconds: float | None = None) -> Any:
        """As `call`, without waiting for a turn: what the protocol itself needs."""
        within = self.limits.call_seconds if seconds is None else seconds
        if self.ending:
            raise self._gone()
        number = self._peer.number()
        try:
            return await self._within(within, self._peer.request(number, method, params))
        except Gone as gone:
            raise self._gone() from gone
        except ValueError as error:
            raise ToolsetError(self.name, f"was not called: what it was to be sent cannot be sent, {error}") from error
        except TimeoutError as error:
            await self._tell(number)
            await self._require_life()
            raise ToolsetError(self.name, f"did not answer within {within:g} s") from error
        except asyncio.CancelledError:
            # Nobody waits for this any more, so the server hears it when it gets to it.
            farewell = asyncio.create_task(self._tell(number))
            self._farewells.add(farewell)
            farewell.add_done_callback(self._farewells.discard)
            raise

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Say something that has no answer; a server that does not take it in time is given up.

        Raises:
            ToolsetError: it is gone.
        """
        try:
            await self._within(self.limits.call_seconds, self._peer.notify(method, params))
        except Gone as gone:
            raise self._gone() from gone
        except TimeoutError as error:
            self.end("it reads nothing any more")
            raise self._gone() from error

    def end(self, why: str) -> None:
        """Give it up, for a reason in half a sentence."""
        self._boxed.end(why)

    async def close(self) -> None:
        """End it; nothing of it is left in the box. May be called twice."""
        for farewell in self._farewells:
            farewell.cancel()
        await self._boxed.close()

    # ------------------------------------------------------------------ within

    async def _heard(self, data: bytes) -> None:
        await self._peer.heard(data)

    def _ended(self, why: str) -> None:
        self._peer.end(why)
        self._over(why)

    def _gone(self) -> ToolsetError:
        return ToolsetError(self.name, f"is gone: {self.ending or 'it hung up'}", _GONE_ADVICE)

    async def _tell(self, number: int) -> None:
        # A server that does not even read this shows itself in the sign of life, or at the next call.
        with contextlib.suppress(TimeoutError, Gone, ToolsetError):
            await self._within(self.limits.ping_seconds, self._speech.gave_up(self, number))

    async def _require_life(self) -> None:
        try:
            alive = await self._within(self.limits.ping_seconds, self._speech.proof(self))
        except Failed:
            # Whoever says no is there.
            alive = True
        except (TimeoutError, Gone, ToolsetError):
            alive = False
        if not alive:
            self.end("it does not answer any more")

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        deadline = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({task, deadline}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                # It says of itself that it was given up, before anybody is told which one.
                await asyncio.wait({task})
                raise TimeoutError
            return task.result()
        finally:
            deadline.cancel()
            task.cancel()
