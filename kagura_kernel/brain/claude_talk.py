"""One run of the Claude program, from its start to its end, as a stream of our events.

The SDK's client lives in one task of its own, since it must be left where it was entered; the events come over a queue.
So the stream can be read, closed and cancelled from any task of the loop, and the loop may run in any thread.

The Claude program as a child process: started with exactly the environment it is given, ended with its group.

The SDK's own transport merges this process's environment into the child's; this one merges nothing. The program is
the leader of its own session, so an interrupt of the kernel does not reach it, and `kill` reaches everything it
started. When this process dies without a word the program goes too, see `with_death_signal`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import tempfile
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    McpSdkServerConfig,
    Message,
    ProcessError,
    ResultMessage,
    SdkMcpTool,
    ToolAnnotations,
    Transport,
    UserMessage,
    create_sdk_mcp_server,
)

from kagura_kernel.brain.claude_auth import (
    SERVER,
    ClaudeHome,
    command_line,
    scratch_environ,
    tool_names,
    with_death_signal,
)
from kagura_kernel.brain.claude_events import NAME, Reader, Reading, split_session, without
from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainHeard, Turn
from kagura_kernel.domain.errors import BrainError, BrainForgot, BrainLost
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec

_CHUNK = 2**16
_LONGEST_LINE = 64 * 2**20
_STDERR_LINES = 20
_GRACE = 3.0  # seconds to save the session after its input has ended


class ProgramTransport(Transport):
    """The program, wherever it runs. `connect` starts it; `close` and `kill` may be called at any time and twice."""

    @abstractmethod
    def kill(self) -> None:
        """End it and everything it started, at once."""

    @abstractmethod
    def last_words(self) -> str:
        """The last line of its standard error; empty if there is none."""

    @abstractmethod
    def ending(self) -> str:
        """Why it is gone, half a sentence; empty if it was never there, or still is."""


class ClaudeProgram(ProgramTransport):
    """One run of the program. `connect` starts it; `close` and `kill` may be called at any time and twice."""

    def __init__(self, line: Sequence[str], environ: Mapping[str, str], cwd: Path, system: str) -> None:
        """A program that is not started.

        Args:
            line: Program and arguments; `{system}` in an argument becomes the path of the system prompt.
            environ: Its whole environment.
            cwd: Its working directory, which exists.
            system: The system prompt, handed over as a nameless file that it inherits.
        """
        self._line = list(line)
        self._environ = dict(environ)
        self._cwd = cwd
        self._system = system
        self._process: asyncio.subprocess.Process | None = None
        self._errors: deque[str] = deque(maxlen=_STDERR_LINES)
        self._error_task: asyncio.Task[None] | None = None
        self._write_lock = asyncio.Lock()
        self._killed = False

    @property
    def pid(self) -> int | None:
        """Its process id, which is also that of its group; None before it is started."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._process is None else self._process.returncode

    def last_words(self) -> str:
        """The last line of its standard error; empty if there is none."""
        return self._errors[-1] if self._errors else ""

    def ending(self) -> str:
        """Its exit code, in words."""
        return "" if self.exit_code is None else f"its program ended with exit code {self.exit_code}"

    async def connect(self) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        with tempfile.TemporaryFile() as prompt:
            prompt.write(self._system.encode())
            prompt.seek(0)
            line = [part.replace("{system}", f"/dev/fd/{prompt.fileno()}") for part in self._line]
            self._process = await asyncio.create_subprocess_exec(
                *line,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._cwd,
                env=self._environ,
                pass_fds=(prompt.fileno(),),
                start_new_session=True,
            )
        self._error_task = asyncio.create_task(self._keep_errors())

    async def write(self, data: str) -> None:
        """Send text; raises `CLIConnectionError` when the program is gone."""
        stdin = None if self._process is None else self._process.stdin
        async with self._write_lock:
            if stdin is None or stdin.is_closing():
                message = "the program's input is closed"
                raise CLIConnectionError(message)
            try:
                stdin.write(data.encode())
                await stdin.drain()
            except (ConnectionError, RuntimeError) as error:
                message = "the program does not read any more"
                raise CLIConnectionError(message) from error

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Its messages until it closes its output; raises `ProcessError` when it then ends badly by itself."""
        process = self._process
        if process is None or process.stdout is None:
            message = "the program is not started"
            raise CLIConnectionError(message)
        pending = b""
        while chunk := await process.stdout.read(_CHUNK):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"{"):
                    yield json.loads(line)
            if len(pending) > _LONGEST_LINE:
                message = "the program sent a message without end"
                raise CLIConnectionError(message)
        code = await process.wait()
        # The SDK would log what we have done ourselves as a fatal error.
        if code != 0 and not self._killed:
            message = "the program ended"
            raise ProcessError(message, exit_code=code)

    async def end_input(self) -> None:
        """Close its standard input, upon which it saves its session and ends."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def close(self) -> None:
        """End it: its input first, then by force. It and its group are gone when this returns."""
        process = self._process
        if process is None:
            return
        await self.end_input()
        try:
            async with asyncio.timeout(_GRACE):
                await process.wait()
        except TimeoutError:
            pass  # it had its time
        finally:
            self.kill()
        await process.wait()
        await self._drain(process)
        if self._error_task is not None:
            await asyncio.wait({self._error_task})

    def kill(self) -> None:
        """End it and everything it started, at once; the system collects it within moments."""
        self._killed = True
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def is_ready(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.returncode is None

    @staticmethod
    async def _drain(process: asyncio.subprocess.Process) -> None:
        """Read what nobody wants, so that the pipe comes to its end and is closed."""
        # A reader that is still at work does the same.
        with suppress(RuntimeError):
            while process.stdout is not None and await process.stdout.read(_CHUNK):
                pass

    async def _keep_errors(self) -> None:
        stream = None if self._process is None else self._process.stderr
        while stream is not None and (chunk := await stream.read(_CHUNK)):
            self._errors.extend(line for line in chunk.decode(errors="replace").splitlines() if line.strip())


_LONGEST_RESULT = 500_000  # characters; a toolbox bounds its results far below


class ToolServer:
    """The tools of one turn and the calls that are under way."""

    def __init__(self, turn: Turn, fail: Callable[[BaseException], None], alive: Callable[[], None]) -> None:
        """A server that is ready.

        Args:
            turn: Whose tools are offered and whose `call_tool` is called.
            fail: Told when a call raises, which ends the run.
            alive: Told when a call has ended, well or not.
        """
        self._turn = turn
        self._fail = fail
        self._alive = alive
        self._calls: set[asyncio.Task[ToolResult]] = set()
        # For `ClaudeAgentOptions.mcp_servers`
        self.config: McpSdkServerConfig = create_sdk_mcp_server(
            SERVER, tools=[self._offer(spec) for spec in turn.tools]
        )

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._calls)

    async def stop(self) -> None:
        """Cancel what is under way and wait until it has ended."""
        calls = set(self._calls)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls)

    def _offer(self, spec: ToolSpec) -> SdkMcpTool[Any]:
        async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
            return await self._call(spec.name, arguments)

        # The program makes calls at once only where it is told that nothing changes, and would put a long answer into
        # a file that no tool of ours can read.
        notes = ToolAnnotations(readOnlyHint=spec.read_only or spec.side_by_side, maxResultSizeChars=_LONGEST_RESULT)
        return SdkMcpTool(spec.name, spec.description, dict(spec.input_schema), handle, notes)

    async def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        call = ToolCall(new_call_id(), name, arguments)
        task = asyncio.ensure_future(self._turn.call_tool(call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            result = await task
        # Whatever a call raises ends the run, and it is the run that has to hear of it: the SDK would tell the model.
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._alive()
        shown = [{"type": "image", "data": image.base64, "mimeType": image.mime} for image in result.images]
        return {"content": [{"type": "text", "text": result.text}, *shown], "is_error": result.is_error}


async def _task(turn: Turn) -> AsyncIterator[dict[str, Any]]:
    """A task with images, each behind its name."""
    content: list[dict[str, Any]] = []
    for image in turn.images:
        source = {"type": "base64", "media_type": image.mime, "data": image.base64}
        content += [{"type": "text", "text": f"{image.name or 'An image'}:"}, {"type": "image", "source": source}]
    said = {"role": "user", "content": [*content, {"type": "text", "text": turn.prompt}]}
    yield {"type": "user", "message": said, "parent_tool_use_id": None}


# The SDK logs a program that ended as an error; here it becomes an error of ours, and a cell's output stays clean.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())

# The program adds a note of its own about where it runs, which the model must not take for where its tools act.
_ABOUT_THE_NOTE = (
    "\n\nA note about an environment, a working directory or an operating system may follow. It is about the program "
    "that you think in, not about the place where your tools act; use none of its paths, nor any "
    "beside an image."
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
        self._unheard: dict[str, Sentence] = {}

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
                async with asyncio.timeout(left):
                    return await self._queue.get()
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
            await client.query(_task(self._turn) if self._turn.images else self._turn.prompt)
            passing_on = asyncio.create_task(self._pass_on(client), name="claude-sentences")
            try:
                async for message in client.receive_messages():
                    self._hear()
                    if self._is_last(message):
                        return
            finally:
                passing_on.cancel()
                await asyncio.wait({passing_on})
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

    async def _pass_on(self, client: ClaudeSDKClient) -> None:
        """Hand over what a person says as it comes; the program takes it up by itself, at its next turn."""

        async def message(name: str, sentence: Sentence) -> AsyncIterator[dict[str, Any]]:
            said = {"role": "user", "content": sentence.text}
            yield {"type": "user", "uuid": name, "message": said, "parent_tool_use_id": None}

        # The program may be gone; whoever reads from it says why.
        with suppress(CLIConnectionError):
            while True:
                sentence = await self._turn.sentences.get()
                name = str(uuid4())
                self._unheard[name] = sentence
                await client.query(message(name, sentence))

    def _is_last(self, message: Message) -> bool:
        """Take a message; whether the program has nothing more to say."""
        if isinstance(message, UserMessage) and (heard := self._unheard.pop(message.uuid or "", None)):
            self._queue.put_nowait(BrainHeard(heard.text, heard.id))
        for event in self._reading.read(message):
            if isinstance(event, BrainDone) and self._goes_on(event):
                return False
            self._queue.put_nowait(event)
        return isinstance(message, ResultMessage)

    def _goes_on(self, done: BrainDone) -> bool:
        """Whether it takes up what it was told at its end, in a further round."""
        if done.stopped or self._turn.max_turns is not None:
            # It would count its rounds anew, so it must not even begin with what it has.
            if self._unheard:
                self._program.kill()
            return False
        return bool(self._unheard) or not self._turn.sentences.empty()

    async def _leave(self, client: ClaudeSDKClient) -> None:
        try:
            # The SDK hands on whatever its reader met. What matters now is only that the program goes.
            with suppress(Exception):
                await client.disconnect()
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
