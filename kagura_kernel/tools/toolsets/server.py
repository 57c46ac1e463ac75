"""One toolset's server: started, asked, and given up when it breaks a limit, in whatever protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, ClassVar, TypeVar

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ToolsetError
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass
from kagura_kernel.membrane.egress.stream import SHORTEST, Pace
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.tools.toolsets.boxed import Boxed
from kagura_kernel.tools.toolsets.foreign_tools import Breach, Cutter, ToolsetLimits, decode, encode, readable, word

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
    """A server answered a request with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code  # The protocol's number


class Gone(Exception):
    """There is no server any more; the text says why, half a sentence."""


@dataclass(eq=False, repr=False)
class Peer:
    """One conversation. What asks or tells raises `Gone` when it is over, `ValueError` for what cannot be sent."""

    cutter: Cutter  # Tells messages apart
    send: Callable[[bytes], Awaitable[None]]  # Hands bytes over; raises `OSError` when nobody takes them
    _: KW_ONLY
    told: Told  # Hears notifications
    asked: Asked  # Answers requests
    limits: ToolsetLimits  # On all of it
    clock: Clock  # Measures how fast it comes

    def __post_init__(self) -> None:
        self._pace = Pace(self.limits.rate, self.limits.burst, SHORTEST)
        self._untold = 0.0
        self._untold_at = self.clock.monotonic()
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._given_up: deque[int] = deque(maxlen=_REMEMBERED)
        self._banner = self.limits.banner_lines
        self._answering = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = ""

    async def heard(self, data: bytes) -> None:
        """Take bytes as they come.

        Raises:
            Breach: no good server would have sent this.
        """
        for body in self.cutter.feed(data):
            if self._pace.take(self.clock.monotonic()) is None:
                raise Breach(f"it sent more than {self.limits.rate:g} messages a second")
            await self._message(body)

    def number(self) -> int:
        """The number of a request to come, each another one."""
        return next(self._numbers)

    async def request(self, number: int, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a request, waiting for it as long as it takes; the server does not hear of giving up.

        Raises:
            Failed: the server answered with an error.
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
        """Say something that has no answer."""
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
        return self.cutter.wrap(encode({"jsonrpc": "2.0", **message}, self.limits.message_bytes))

    async def _hand_over(self, data: bytes) -> None:
        try:
            await self.send(data)
        except OSError as error:
            raise Gone(self._gone or "it does not listen any more") from error

    async def _message(self, body: bytes) -> None:
        most = self.limits.message_bytes
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
                self.told(method, said.get("params"))
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
        now = self.clock.monotonic()
        self._untold = max(0.0, self._untold - (now - self._untold_at) * self.limits.untold_rate) + size
        self._untold_at = now
        if self._untold > self.limits.untold_bytes:
            raise Breach("it says more than anybody asked for")

    def _answer(self, number: int | str, method: str, params: Any) -> None:
        if self._answering >= self.limits.questions:
            raise Breach("it asks without end and reads no answer")
        try:
            reply: dict[str, Any] = {"id": number, "result": self.asked(method, params)}
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
    code = error.get("code")
    said = readable(error.get("message"), _LONGEST_MESSAGE) or "an error without words"
    return Failed(code if type(code) is int else 0, said)


T = TypeVar("T")

_GONE_ADVICE = "It is not started again in this run; go on without its tools."


@dataclass(eq=False, repr=False)
class Client(ABC):
    """A toolset's server, whatever it speaks; made and used on the box's loop.

    A protocol adds how messages are told apart, how it begins, and what is asked of it.
    """

    cutter: ClassVar[type[Cutter]]  # Tells messages apart

    name: str  # The toolset's
    box: Box  # The run's
    order: Mapping[str, Any]  # What the bridge is told: a program, or a URL
    _: KW_ONLY
    over: Callable[[str], None]  # Told once when it is over, why, half a sentence; also when it was closed
    clock: Clock
    limits: ToolsetLimits  # On all of it

    def __post_init__(self) -> None:
        self.server = ""  # What it calls itself, with its version; its own word, empty before it has begun
        self._farewells: set[asyncio.Task[None]] = set()
        told = self._heard, self._ended
        self._boxed = Boxed(self.name, self.box, self.order, *told, clock=self.clock, log_bytes=self.limits.log_bytes)
        cutter = self.cutter(self.limits.message_bytes)
        self._peer = Peer(
            cutter, self._boxed.write, told=self._told, asked=self._asked, limits=self.limits, clock=self.clock
        )
        self._slots = asyncio.Semaphore(self.limits.calls)
        self._under_way = 0

    @property
    def log(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._boxed.log

    @property
    def ending(self) -> str:
        """Why it is over, half a sentence; empty while it is not."""
        return self._boxed.ending

    async def start(self) -> None:
        """Start it, and hear what it is, within `start_seconds`. Whatever happens, `close` has to follow.

        Raises:
            ToolsetError: it cannot be started, or says what no good server says.
            SandboxError: the box is gone.
        """
        seconds = self.limits.start_seconds
        try:
            await self._within(seconds, self._begin())
        except TimeoutError as error:
            self._boxed.end("it took too long to begin")
            raise ToolsetError(self.name, f"could not be started: it did not answer within {seconds:g} s") from error
        except Failed as error:
            self._boxed.end(f"it refused to begin: {word(str(error))}")
            raise ToolsetError(self.name, f"refused to begin: {error}") from error
        except Breach as breach:
            raise self._cut_off(breach) from breach

    def require(self, read: Callable[[], T]) -> T:
        """What a reader makes of an answer; a server whose answer is none is given up.

        Raises:
            ToolsetError: it was.
        """
        try:
            return read()
        except Breach as breach:
            raise self._cut_off(breach) from breach

    async def close(self) -> None:
        """End it; nothing of it is left in the box. May be called twice."""
        for farewell in self._farewells:
            farewell.cancel()
        await self._boxed.close()

    # ------------------------------------------------------------ of a protocol

    @abstractmethod
    async def _get_ready(self) -> None:
        """What the protocol begins with, on a server that is started; raises `Failed`, `Breach` and `ToolsetError`."""

    @abstractmethod
    def _told(self, method: str, params: Any) -> None:
        """Hear a notification."""

    @abstractmethod
    def _asked(self, method: str, params: Any) -> Any:
        """The answer to a request of the server's; raises `Unanswered` for one that has none."""

    @abstractmethod
    async def _give_up(self, number: int) -> None:
        """Tell the server, in the protocol's words, that the answer to this request is not waited for any more."""

    @abstractmethod
    async def _is_alive(self) -> bool:
        """Whether a server that has let a call run out still answers."""

    # ---------------------------------------------------------------- to use it

    async def _call(self, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a request that may have to wait for its turn.

        Raises:
            Failed: the server answered with an error.
            ToolsetError: it is gone, too busy, or did not answer in time.
        """
        if self._under_way >= self.limits.calls + self.limits.waiting:
            raise ToolsetError(self.name, f"has {self._under_way} calls waiting already", "Wait for some, then retry.")
        self._under_way += 1
        try:
            async with self._slots:
                return await self._request(method, params, self.limits.call_seconds)
        finally:
            self._under_way -= 1

    async def _request(self, method: str, params: Mapping[str, Any], seconds: float) -> Any:
        """As `_call`, without waiting for a turn: what the protocol itself needs."""
        if self.ending:
            raise self._gone()
        number = self._peer.number()
        try:
            return await self._within(seconds, self._peer.request(number, method, params))
        except Gone as gone:
            raise self._gone() from gone
        except ValueError as error:
            raise ToolsetError(self.name, f"was not called: what it was to be sent cannot be sent, {error}") from error
        except TimeoutError as error:
            await self._tell(number)
            await self._require_life()
            raise ToolsetError(self.name, f"did not answer within {seconds:g} s") from error
        except asyncio.CancelledError:
            # Nobody waits for this any more, so the server hears it when it gets to it.
            farewell = asyncio.create_task(self._tell(number))
            self._farewells.add(farewell)
            farewell.add_done_callback(self._farewells.discard)
            raise

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Say something that has no answer; a server that does not take it in time is given up.

        Raises:
            ToolsetError: it is gone.
        """
        try:
            await self._within(self.limits.call_seconds, self._peer.notify(method, params))
        except Gone as gone:
            raise self._gone() from gone
        except TimeoutError as error:
            self._boxed.end("it reads nothing any more")
            raise self._gone() from error

    # ------------------------------------------------------------------ within

    async def _begin(self) -> None:
        await self._boxed.open()
        if self.ending:
            raise ToolsetError(self.name, f"could not be started: {self.ending}")
        await self._get_ready()

    async def _heard(self, data: bytes) -> None:
        await self._peer.heard(data)

    def _ended(self, why: str) -> None:
        self._peer.end(why)
        self.over(why)

    def _gone(self) -> ToolsetError:
        return ToolsetError(self.name, f"is gone: {self.ending or 'it hung up'}", _GONE_ADVICE)

    def _cut_off(self, breach: Breach) -> ToolsetError:
        self._boxed.end(str(breach))
        return ToolsetError(self.name, f"was cut off: {breach}")

    async def _tell(self, number: int) -> None:
        # A server that does not even read this shows itself in the sign of life, or at the next call.
        with contextlib.suppress(TimeoutError, Gone, ToolsetError):
            await self._within(self.limits.ping_seconds, self._give_up(number))

    async def _require_life(self) -> None:
        try:
            alive = await self._within(self.limits.ping_seconds, self._is_alive())
        except Failed:
            # Whoever says no is there.
            alive = True
        except (TimeoutError, Gone, ToolsetError):
            alive = False
        if not alive:
            self._boxed.end("it does not answer any more")

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        deadline = asyncio.ensure_future(self.clock.sleep(seconds))
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
