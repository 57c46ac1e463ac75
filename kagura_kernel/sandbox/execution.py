"""One command over a channel: sent, fed, listened to, limited from this side too, and turned into a result."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from kagura_kernel.domain.commands import Command, CommandResult, Output, OutputListener, Stream
from kagura_kernel.domain.errors import SandboxCommandTimeout, SandboxIdleTimeout, UsageError
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.output import Printed
from kagura_kernel.sandbox.streams import HostStream, Opener
from kagura_kernel.sandbox.wire import WireError

MARGIN = 5.0
"""Seconds that the guest has to enforce a limit before the host closes the box."""

SECOND_LOOK = 0.5
CANCEL_GRACE = 0.15
NAMES: dict[int, Stream] = {frames.DATA: "stdout", frames.ERRDATA: "stderr"}


async def run_command(channel: Opener, command: Command, on_output: OutputListener | None) -> CommandResult:
    """Run one command to its end; see `Box.run`."""
    if not command.argv:
        raise UsageError("A command needs at least the name of a program.")
    async with channel.slots:
        return await _Execution(channel, command, on_output).run()


def read_outcome(outcome: dict[str, Any]) -> tuple[int, int | None, str]:
    """Exit code, signal and the limit that was hit, from what the guest says.

    Raises:
        WireError: it says something else.
    """
    code, signal, why = outcome.get("exit"), outcome.get("signal"), outcome.get("why", "")
    if code is None and why:
        code = 137
    if type(code) is not int or not 0 <= code <= 255:  # noqa: PLR2004 - the range of an exit code
        raise WireError("a result without an exit code")
    if signal is not None and (type(signal) is not int or not 0 < signal < 128):  # noqa: PLR2004 - and of a signal
        raise WireError("a result with an impossible signal")
    if why not in ("", "total", "idle", "cancel"):
        raise WireError("a result with an unknown reason")
    return code, signal, why


class _Execution:
    """One command on its way."""

    def __init__(self, channel: Opener, command: Command, on_output: OutputListener | None) -> None:
        self._channel = channel
        self._command = command
        self._printed: Printed | None = Printed(command, on_output)
        self._guard: asyncio.TimerHandle | None = None
        self._stream: HostStream | None = None

    async def run(self) -> CommandResult:
        started = time.monotonic()
        try:
            stream = self._stream = self._channel.open(self._request(), self._received)
        except ValueError:
            return CommandResult(126, stderr=_all_of(b"the command line is too long\n"))
        feeder = self._feed(stream)
        self._watch(stream)
        try:
            outcome = await asyncio.shield(stream.result)
            return self._result(outcome, time.monotonic() - started)
        except WireError as problem:
            self._discard()
            raise self._channel.broke(problem) from problem
        except BaseException:
            self._discard()
            await self._channel.call_off(stream, CANCEL_GRACE)
            raise
        finally:
            if self._guard is not None:
                self._guard.cancel()
            if feeder is not None:
                feeder.cancel()

    def _request(self) -> dict[str, Any]:
        command = self._command
        return {
            "kind": frames.EXEC,
            "argv": command.argv,
            "cwd": command.cwd,
            "env": {**command.env, **command.secret_env},
            "stdin": bool(command.stdin),
            "total": command.limits.total,
            "idle": command.limits.idle,
        }

    def _feed(self, stream: HostStream) -> asyncio.Task[None] | None:
        if not self._command.stdin:
            return None
        rest = stream.send_now(self._command.stdin)
        if not rest:
            stream.send_eof()
            return None
        return asyncio.get_running_loop().create_task(_feed_rest(stream, rest))

    def _received(self, kind: int, payload: memoryview) -> None:
        if self._printed is None:
            return
        try:
            self._printed.add(NAMES[kind], payload)
        # Listeners and filters are anybody's code; a failure ends this command and must not touch the other streams.
        except Exception as problem:  # noqa: BLE001
            self._discard()
            if self._stream is not None:
                self._stream.fail(problem)

    # ----------------------------------------------------------------- limits

    def _watch(self, stream: HostStream) -> None:
        """Close the box should its guest not keep the limits."""
        limits = self._command.limits
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = [now + limits.total + MARGIN] if limits.total is not None else []
        if limits.idle is not None:
            due.append(now + limits.idle + MARGIN)
        if due:
            self._guard = loop.call_at(min(due), self._check, stream, now)

    def _check(self, stream: HostStream, started: float, *, again: bool = False) -> None:
        if stream.result.done():
            return
        limits = self._command.limits
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = [started + limits.total + MARGIN] if limits.total is not None else []
        if limits.idle is not None:
            due.append(stream.heard_at + limits.idle + MARGIN)
        if min(due) > now:
            self._guard = loop.call_at(min(due), self._check, stream, started)
        elif not again:
            # If this loop was held up, the guest's word may be waiting to be read.
            self._guard = loop.call_later(SECOND_LOOK, partial(self._check, stream, started, again=True))
        else:
            self._channel.broke("it did not stop a command at its time limit")

    # ----------------------------------------------------------------- result

    def _result(self, outcome: dict[str, Any], duration: float) -> CommandResult:
        code, signal, why = read_outcome(outcome)
        limits, line = self._command.limits, self._command.line
        if self._printed is not None:
            self._printed.end()
        if why == "total":
            raise SandboxCommandTimeout(line, limits.total or 0.0)
        if why == "idle":
            raise SandboxIdleTimeout(line, limits.idle or 0.0)
        stdout, stderr = self._printed.finish() if self._printed is not None else (Output(), Output())
        return CommandResult(code, stdout, stderr, duration, signal)

    def _discard(self) -> None:
        if self._printed is not None:
            self._printed.discard()
            self._printed = None


async def _feed_rest(stream: HostStream, rest: memoryview) -> None:
    await stream.send_all(rest)
    stream.send_eof()


def _all_of(text: bytes) -> Output:
    return Output(text, b"", len(text))
