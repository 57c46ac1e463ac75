"""One box with one plugin in it, from its start until it is over, however that comes; never started twice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kagura_kernel.domain.commands import Command, CommandResult, OutputChunk
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.plugins import framing
from kagura_kernel.plugins.jail.boxing import WayOut, box_spec
from kagura_kernel.plugins.jail.disk import until_full
from kagura_kernel.plugins.jail.log import JailLog
from kagura_kernel.plugins.jail.parts import JailParts
from kagura_kernel.plugins.jail.reading import Answer, Breach, Frames, Table, Trouble, read_answer, read_beginning
from kagura_kernel.plugins.jail.sending import hello, jailer_argv, jailer_payload
from kagura_kernel.sandbox.guest_streams import GuestStream, Listener

if TYPE_CHECKING:
    from kagura_kernel.plugins.content import PluginContent
    from kagura_kernel.plugins.permissions import JailPlan
    from kagura_kernel.sandbox.backend import Box

T = TypeVar("T")

_NO_LIMITS = CommandLimits(total=None, idle=None)
_LAST_WORDS = 1.0
_KILLED = 9
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended.

    Attributes:
        why: Half a sentence.
        breach: Whether it sent what no jailer would.
    """

    why: str
    breach: bool = False


class Gone(Exception):
    """It is over; `ending` says how."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.why)
        self.ending = ending


class Running:
    """A plugin that runs in a box of its own.

    Args:
        content: The plugin's files.
        plan: What its box opens.
        parts: What jails are made of.
        log: Takes what it prints.
        on_over: Told once, when it is over.
    """

    def __init__(
        self,
        content: PluginContent,
        plan: JailPlan,
        parts: JailParts,
        log: JailLog,
        on_over: Callable[[Running, Ending], None],
    ) -> None:
        self._content = content
        self._plan = plan
        self._parts = parts
        self._log = log
        self._on_over = on_over
        self._way_out = WayOut(content.name, plan, parts)
        self._box: Box | None = None
        self._stream: GuestStream | None = None
        self._turn = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Answer]] = {}
        self._began: asyncio.Future[Table | Trouble] = asyncio.get_running_loop().create_future()
        self._ending: Ending | None = None
        self._jailer: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> Table | Trouble:
        """Start the box, send the plugin in, and hear what it gives. Whatever happens, `end` or `close` has to follow.

        Raises:
            Gone: it was over before it could say.
            TimeoutError: it did not say in time.
            FrameError: the plugin is too large to be sent.
            KaguraError: the box cannot be had.
        """
        beginning = hello(self._content, self._plan.config, self._parts.limits)
        box = await self._parts.start_box(box_spec(self._plan, self._parts.limits))
        if self._ending is not None:
            # Whoever ended it meanwhile had no box to close.
            await asyncio.shield(box.close())
            raise Gone(self._ending)
        self._box = box
        variables = await self._way_out.open(box, lambda _: self.end(Ending("a crossing could not be recorded")))

        async def serve(stream: GuestStream) -> None:
            await self._serve(stream, jailer_payload() + beginning)

        port = await box.listen(Listener(0, "raw", "jail"), serve, self._failed)
        self._jailer = self._spawn(self._run_jailer(box, port, variables))
        if written := [shown.source for shown in self._plan.shown if shown.writable]:
            self._spawn(self._guard(written))
        return await self._within(self._parts.limits.start_seconds, asyncio.shield(self._began))

    async def ask(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Answer:
        """Have a function called; its answer.

        Raises:
            FrameError: the arguments are no JSON, or too much.
            TimeoutError: it did not answer in time.
            Gone: it is over.
        """
        number = next(self._numbers)
        request = {"id": number, "module": module, "function": function, "arguments": arguments, "named": named}
        frame = framing.encode(request, self._parts.limits.frame_bytes)
        if self._ending is not None:
            raise Gone(self._ending)
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            return await self._within(self._parts.limits.call_seconds, self._exchange(frame, answer))
        finally:
            self._pending.pop(number, None)

    def end(self, ending: Ending) -> None:
        """It is over: nobody waits for an answer any more. Only the first time counts."""
        if self._ending is not None:
            return
        self._ending = ending
        waiting: list[asyncio.Future[Any]] = [*self._pending.values(), self._began]
        for one in waiting:
            if not one.done():
                one.set_exception(Gone(ending))
                # Whoever has left does not ask; the loop shall not complain about it.
                one.exception()
        if self._stream is not None:
            self._stream.abort()
        self._on_over(self, ending)

    async def close(self) -> None:
        """End everything in the box and free what it held; may be called twice."""
        self.end(Ending("it was closed"))
        try:
            if self._box is not None:
                await self._box.close()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._way_out.close()

    # ------------------------------------------------------------ connection

    async def _serve(self, stream: GuestStream, beginning: bytes) -> None:
        if self._stream is not None:
            await stream.refuse(503, "one connection is enough")
            self.end(Ending("it made a second connection to the host", breach=True))
            return
        self._stream = stream
        frames = Frames(stream, self._parts.limits.frame_bytes)
        try:
            await stream.accept()
            await stream.write(beginning)
            self._begin(await frames.next())
            while True:
                self._answered(read_answer(await frames.next()))
        except Breach as breach:
            self.end(Ending(str(breach), breach=True))
        except (OSError, EOFError):
            # The reason is what the jailer's end says.
            pass
        if self._ending is None and self._jailer is not None:
            await asyncio.wait({self._jailer}, timeout=_LAST_WORDS)
        self.end(Ending("it hung up"))

    def _begin(self, said: Any) -> None:
        beginning = read_beginning(said)
        if not self._began.done():
            self._began.set_result(beginning)

    def _answered(self, answer: Answer) -> None:
        waiting = self._pending.pop(answer.id, None)
        if waiting is None or waiting.done():
            raise Breach("it answered what it was not asked, or twice")
        waiting.set_result(answer)

    async def _exchange(self, frame: bytes, answer: asyncio.Future[Answer]) -> Answer:
        if self._stream is not None:
            # A connection that is gone says so where it is read.
            with suppress(OSError):
                async with self._turn:
                    await self._stream.write(frame)
        return await answer

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
        task = asyncio.ensure_future(work)
        deadline = asyncio.ensure_future(self._parts.clock.sleep(seconds))
        try:
            await asyncio.wait({task, deadline}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise TimeoutError
            return task.result()
        finally:
            deadline.cancel()
            task.cancel()

    # --------------------------------------------------------------- process

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task

    async def _run_jailer(self, box: Box, port: int, variables: Mapping[str, str]) -> None:
        command = Command(jailer_argv(port), cwd="/tmp", env=variables, limits=_NO_LIMITS, keep_bytes=1024)  # noqa: S108 - the box's own
        try:
            why = self._why(await box.run(command, self._printed))
        except KaguraError as error:
            why = await box.wait_closed() or error.message
        self.end(Ending(why))

    def _why(self, result: CommandResult) -> str:
        if result.signal == _KILLED:
            return f"its process was killed, as one is that needs more than {self._parts.limits.memory_mib} MiB"
        if result.exit_code == _NOT_FOUND:
            return "there is no python3 in its box"
        if result.signal:
            return f"signal {result.signal} ended its process"
        return f"its process ended with exit code {result.exit_code}"

    def _printed(self, chunk: OutputChunk) -> None:
        if not self._log.add(chunk.data):
            self.end(Ending("it printed without end"))

    async def _guard(self, places: Sequence[Any]) -> None:
        self.end(Ending(await until_full(places, self._parts.clock)))

    def _failed(self, error: BaseException) -> None:
        self.end(Ending(f"serving it failed ({type(error).__name__})"))
