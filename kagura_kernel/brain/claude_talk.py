"""One run of the Claude program, from its start to its end, as a stream of our events.

The SDK's client lives in one task of its own, since it must be left where it was entered; the events come over a queue.
So the stream can be read, closed and cancelled from any task of the loop, and the loop may run in any thread.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from kagura_kernel.brain.claude_auth import ClaudeHome, scratch_environ
from kagura_kernel.brain.claude_command import command_line, tool_names, with_death_signal
from kagura_kernel.brain.claude_events import NAME, Reader, Reading, split_session, without
from kagura_kernel.brain.claude_tools import ToolServer
from kagura_kernel.brain.claude_transport import ClaudeProgram, ProgramTransport
from kagura_kernel.brain.provider import BrainDone, BrainEvent, Turn
from kagura_kernel.domain.errors import BrainError, BrainForgot, BrainLost

# The SDK logs a program that ended as an error; here it becomes an error of ours, and a cell's output stays clean.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())

# The program adds a note of its own about where it runs, which the model must not take for where its tools act.
_ABOUT_THE_NOTE = (
    "\n\nA note about an environment, a working directory or an operating system may follow. It is about the program "
    "that you think in, not about the place where your tools act; use none of its paths."
)


def host_talk(
    turn: Turn,
    *,
    program: Path,
    environ: dict[str, str],
    home: ClaudeHome,
    secrets: Sequence[str],
    silence: float,
) -> Talk:
    """A talk with a program of this machine.

    Args:
        turn: What to do.
        program: The Claude program.
        environ: Its environment, to which a directory for temporary files is added.
        home: The directories of ours, made already.
        secrets: Texts that must not stand in an error message.
        silence: As for `Talk`.
    """
    session, _ = split_session(turn.resume)
    line = with_death_signal(command_line(program, replace(turn, resume=session), "{system}"))
    reading = Reading(tool_names(turn.tools), turn.resume, secrets)
    # The task may never come to its first step; `stop` removes the directory in any case.
    scratch = tempfile.TemporaryDirectory(prefix="run-", dir=home.cache, ignore_cleanup_errors=True)
    whole = {**environ, **scratch_environ(Path(scratch.name))}
    transport = ClaudeProgram(line, whole, home.work, turn.system + _ABOUT_THE_NOTE)
    return Talk(turn, transport, reading, secrets=secrets, silence=silence, freed=scratch.cleanup)


class Talk:
    """One turn with the program. `events` may be used once; `stop` at any time and twice."""

    def __init__(
        self,
        turn: Turn,
        program: ProgramTransport,
        reading: Reader,
        *,
        secrets: Sequence[str],
        silence: float,
        name: str = NAME,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        """A talk that has not begun.

        Args:
            turn: What to do.
            program: The Claude program, not started.
            reading: Makes our events of what it says.
            secrets: Texts that must not stand in an error message.
            silence: Seconds without a word, and without a tool call under way, after which it counts as lost.
            name: The brain's.
            freed: Called when the program is gone, and more than once.
        """
        self._turn = turn
        self._program = program
        self._reading = reading
        self._secrets = secrets
        self._silence = silence
        self._name = name
        self._freed = freed
        self._tools = ToolServer(turn, self._fail, self._hear)
        self._queue: asyncio.Queue[BrainEvent | BaseException] = asyncio.Queue()
        self._heard = 0.0
        self._leaving = False
        self._task: asyncio.Task[None] | None = None

    async def events(self) -> AsyncGenerator[BrainEvent, None]:
        """The events; the program is gone before `BrainDone` is yielded."""
        self._hear()
        self._task = asyncio.create_task(self._converse(), name="claude-talk")
        while True:
            event = await self._next()
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, BrainDone):
                await self.stop(kindly=True)
                yield event
                return
            yield event

    async def stop(self, *, kindly: bool = False) -> None:
        """End the program and every call under way. Cancelled meanwhile, it still finishes before it says so.

        Args:
            kindly: Let the program save its session first.
        """
        try:
            if self._task is not None:
                await self._see_off(self._task, kindly=kindly)
        finally:
            self._freed()

    async def _see_off(self, task: asyncio.Task[None], *, kindly: bool) -> None:
        if not kindly:
            self._hurry(task)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                self._hurry(task)
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _hurry(self, task: asyncio.Task[None]) -> None:
        self._program.kill()
        if not self._leaving:  # a task that is clearing up already must not be disturbed at it
            task.cancel()

    async def _next(self) -> BrainEvent | BaseException:
        loop = asyncio.get_running_loop()
        while True:
            if self._tools.busy or self._reading.busy:
                self._hear()
            left = self._heard + self._silence - loop.time()
            if left <= 0:
                raise BrainLost(self._name, f"its program said nothing for {self._silence:g} s")
            try:
                return await asyncio.wait_for(self._queue.get(), left)
            except TimeoutError:
                continue  # a call under way, or words that were no events, count as life

    def _hear(self) -> None:
        self._heard = asyncio.get_running_loop().time()

    def _fail(self, error: BaseException) -> None:
        self._queue.put_nowait(error)

    async def _converse(self) -> None:
        """The task that owns the client."""
        options = ClaudeAgentOptions(
            mcp_servers={"kagura": self._tools.config},
            # The task is taken as it was written: no `@file` is read, no `/command` is run.
            verbatim_prompts=True,
        )
        client = ClaudeSDKClient(options, transport=self._program)
        try:
            await client.connect()
            await client.query(self._turn.task)
            async for message in client.receive_messages():
                self._hear()
                for event in self._reading.read(message):
                    self._queue.put_nowait(event)
                if isinstance(message, ResultMessage):
                    return
            self._fail(await self._lost())
        except BrainError as error:
            self._fail(error)
        # Whatever the SDK raises, and it raises bare Exceptions, means that the program is of no use any more.
        except Exception as error:  # noqa: BLE001
            lost = await self._lost()
            lost.__cause__ = error
            self._fail(lost)
        finally:
            self._leaving = True
            await self._tools.stop()
            await self._leave(client)

    async def _leave(self, client: ClaudeSDKClient) -> None:
        try:
            await client.disconnect()
        # The SDK hands on whatever its reader met. What matters now is only that the program goes.
        except Exception:  # noqa: BLE001
            self._program.kill()
        finally:
            self._program.kill()
            await self._program.close()

    async def _lost(self) -> BrainError:
        """Why the program is gone, as far as it said so."""
        await self._program.close()
        said = without(self._secrets, self._program.last_words())
        if "No conversation found" in said:
            return BrainForgot(self._name)
        ending = self._program.ending()
        if not ending:
            return BrainLost(self._name, "its program could not be started")
        return BrainLost(self._name, ending + (f" ({said})" if said else ""))
