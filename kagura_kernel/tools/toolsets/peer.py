"""JSON-RPC with a server that is not believed: requests, their answers, and what it says by itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kagura_kernel.domain.clock import Clock
from kagura_kernel.membrane.egress.limits import SHORTEST, Pace
from kagura_kernel.tools.toolsets.cutting import Breach, Cutter, decode, encode
from kagura_kernel.tools.toolsets.limits import ToolsetLimits

NO_METHOD = -32601
_IN_A_THREAD = 128 * 1024
_LONGEST_MESSAGE = 2000
_REMEMBERED = 1000

Told = Callable[[str, Any], None]
"""A notification's method and what comes with it."""

Asked = Callable[[str, Any], Any]
"""The answer to a request of the server's; raises `Unanswered` for one that has none."""


class Unanswered(Exception):
    """A server asks for what it does not get; the text says so."""


class Failed(Exception):
    """A server answered a request with an error.

    Attributes:
        code: The protocol's number.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Gone(Exception):
    """There is no server any more; the text says why, half a sentence."""


class Peer:
    """One conversation.

    Args:
        cutter: Tells messages apart.
        send: Hands bytes over; raises `OSError` when nobody takes them.
        told: Hears notifications.
        asked: Answers requests.
        limits: On all of it.
        clock: Measures how fast it comes.
    """

    def __init__(
        self,
        cutter: Cutter,
        send: Callable[[bytes], Awaitable[None]],
        *,
        told: Told,
        asked: Asked,
        limits: ToolsetLimits,
        clock: Clock,
    ) -> None:
        self._cutter = cutter
        self._send = send
        self._told = told
        self._asked = asked
        self._limits = limits
        self._clock = clock
        self._pace = Pace(limits.rate, limits.burst, SHORTEST)
        self._untold = 0.0
        self._untold_at = clock.monotonic()
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._given_up: deque[int] = deque(maxlen=_REMEMBERED)
        self._banner = limits.banner_lines
        self._answering = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = ""

    async def heard(self, data: bytes) -> None:
        """Take bytes as they come.

        Raises:
            Breach: no good server would have sent this.
        """
        for body in self._cutter.feed(data):
            if self._pace.take(self._clock.monotonic()) is None:
                raise Breach(f"it sent more than {self._limits.rate:g} messages a second")
            await self._message(body)

    def number(self) -> int:
        """The number of a request to come, each another one."""
        return next(self._numbers)

    async def request(self, number: int, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a request, waiting for it as long as it takes; the server does not hear of giving up.

        Raises:
            Failed: the server answered with an error.
            Gone: it is over.
            ValueError: the request cannot be sent; the text is half a sentence.
        """
        data = self._encoded({"id": number, "method": method, "params": params})
        if self._gone:
            raise Gone(self._gone)
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            await self._hand_over(data)
            return await answer
        finally:
            if self._pending.pop(number, None) is not None:
                # Its answer may still come, and is nobody's then.
                self._given_up.append(number)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Say something that has no answer.

        Raises:
            Gone: it is over.
            ValueError: it cannot be sent; the text is half a sentence.
        """
        await self._hand_over(self._encoded({"method": method, "params": params}))

    def end(self, why: str) -> None:
        """Nothing more will come: whoever waits hears why."""
        if self._gone:
            return
        self._gone = why
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(Gone(why))
                # Whoever has left does not ask; the loop shall not complain about it.
                answer.exception()
        for task in self._tasks:
            task.cancel()

    # ------------------------------------------------------------------ within

    def _encoded(self, message: Mapping[str, Any]) -> bytes:
        return self._cutter.wrap(encode({"jsonrpc": "2.0", **message}, self._limits.message_bytes))

    async def _hand_over(self, data: bytes) -> None:
        try:
            await self._send(data)
        except OSError as error:
            raise Gone(self._gone or "it does not listen any more") from error

    async def _message(self, body: bytes) -> None:
        most = self._limits.message_bytes
        try:
            large = len(body) > _IN_A_THREAD
            said = await asyncio.to_thread(decode, body, most) if large else decode(body, most)
        except Breach:
            if self._banner <= 0 or body[:1] in (b"{", b"["):
                raise
            self._banner -= 1
            return
        self._banner = 0
        for one in said if isinstance(said, list) else (said,):
            self._take(one, len(body))

    def _take(self, said: Any, size: int) -> None:
        match said:
            case {"method": str() as method, "id": int() | str() as number}:
                self._count(size)
                self._answer(number, method, said.get("params"))
            case {"method": str() as method}:
                self._count(size)
                self._told(method, said.get("params"))
            case {"id": int() as number, "result": result} if type(number) is int:
                self._settle(number, result)
            case {"id": int() as number, "error": dict() as error} if type(number) is int:
                self._settle(number, _failure(error))
            case {"error": dict() as error, "id": None}:
                raise Breach(f"it understood nothing: {_failure(error)}")
            case _:
                raise Breach("it sent a message that is neither request nor answer")

    def _settle(self, number: int, outcome: Any) -> None:
        answer = self._pending.pop(number, None)
        if answer is None:
            if number not in self._given_up:
                raise Breach("it answered what it was not asked, or twice")
            self._given_up.remove(number)
        elif not answer.done():
            if isinstance(outcome, Failed):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

    def _count(self, size: int) -> None:
        """What nobody asked for is counted by its length as well."""
        now = self._clock.monotonic()
        self._untold = max(0.0, self._untold - (now - self._untold_at) * self._limits.untold_rate) + size
        self._untold_at = now
        if self._untold > self._limits.untold_bytes:
            raise Breach("it says more than anybody asked for")

    def _answer(self, number: int | str, method: str, params: Any) -> None:
        if self._answering >= self._limits.questions:
            raise Breach("it asks without end and reads no answer")
        try:
            reply: dict[str, Any] = {"id": number, "result": self._asked(method, params)}
        except Unanswered as error:
            reply = {"id": number, "error": {"code": NO_METHOD, "message": str(error)}}
        self._answering += 1
        task = asyncio.create_task(self._reply(reply))
        self._tasks.add(task)
        task.add_done_callback(self._replied)

    async def _reply(self, reply: Mapping[str, Any]) -> None:
        # Who asked has gone, or made the number of its question too long to be said again.
        with contextlib.suppress(Gone, ValueError):
            await self._hand_over(self._encoded(reply))

    def _replied(self, task: asyncio.Task[None]) -> None:
        self._answering -= 1
        self._tasks.discard(task)


def _failure(error: Mapping[str, Any]) -> Failed:
    code, message = error.get("code"), error.get("message")
    text = message if isinstance(message, str) else "an error without words"
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text[:_LONGEST_MESSAGE])
    return Failed(code if type(code) is int else 0, shown)
