"""How a brain's tool calls are carried out and recorded: stored, run, stored again."""

from __future__ import annotations

import codecs
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.commands import OutputChunk, OutputListener
from kagura_kernel.domain.events import OutputStreamed, ToolCalled, ToolFinished
from kagura_kernel.domain.nesting import one_level_in
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.runs.recorder import Recorder

MAX_DEPTH = 64
"""Levels of a call's arguments; no tool of ours has more than three, and a row nested very deeply cannot be read."""

SHOWING = frozenset({"bash", "python"})
"""Tools whose programs can show something."""

TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"

PRIVATE = "(not recorded: it is kept in the memory, where it can be erased)"
"""What stands in the journal for an argument that it does not hold."""

UseTool = Callable[[ToolCall, OutputListener], Awaitable[ToolResult]]
"""Carries one call out; raises only what must end the run."""


class Hands:
    """Records every call before it runs and every result before the brain sees it.

    Args:
        use: Carries a call out.
        recorder: The run's record.
        clock: For durations.
        fatal: Told what must end the run, before it is raised: a brain's own program may swallow the exception.
        shown: A call's id to words about what its programs showed to the person, which the brain reads too.
        after: Called when a call has been carried out; its words, if any, are added to what the brain reads, and what
            it raises is fatal too.
        scrub: Takes live secrets out of what the brain reads.
        redact: Takes every other secret out of it, when the live ones are hidden.
        private: A tool's name and the arguments it was given to those of them that no journal holds.
        offered: Whether the run offers a tool of a name.
        finished: Told of every call that has been answered and recorded, before its brain is; what it raises is fatal.
    """

    def __init__(  # noqa: PLR0913 - what happens to a call on its way, each a step
        self,
        use: UseTool,
        recorder: Recorder,
        clock: Clock,
        *,
        fatal: Callable[[BaseException], None],
        shown: Callable[[str], Awaitable[str]] | None = None,
        after: Callable[[], Awaitable[str]] | None = None,
        scrub: Callable[[str], str] = str,
        redact: Callable[[str], Awaitable[str]] | None = None,
        private: Callable[[str, Iterable[str]], Sequence[str]] | None = None,
        offered: Callable[[str], bool] = lambda _name: False,
        finished: Callable[[ToolCall, ToolResult], Awaitable[None]] | None = None,
    ) -> None:
        self._use = use
        self._recorder = recorder
        self._clock = clock
        self._fatal = fatal
        self._shown = shown
        self._after = after
        self._scrub = scrub
        self._redact = redact
        self._private = private
        self._offered = offered
        self._finished = finished
        self.calls = 0

    async def call(self, call: ToolCall) -> ToolResult:
        """One tool call, from the brain's request to the answer it reads."""
        try:
            return await self._recorded(call)
        except Exception as error:
            # Whatever a tool could not turn into a result ends the run, even if the brain hides it.
            self._fatal(error)
            raise

    async def _recorded(self, call: ToolCall) -> ToolResult:
        self.calls += 1
        deep = is_deeper_than(call.arguments, MAX_DEPTH)
        arguments = {"refused": TOO_DEEP} if deep else self._told(call)
        offered = self._offered(call.name)
        self._recorder.record(ToolCalled, call_id=call.id, tool=call.name, arguments=arguments, offered=offered)
        began = self._clock.monotonic()
        if deep:
            result = ToolResult(f"{call.name} was not called: its arguments are {TOO_DEEP}.", is_error=True, route="")
        else:
            result = await self._use(call, streamer(self._recorder, call.id))
        if self._shown is not None and call.name in SHOWING and (words := await self._shown(call.id)):
            result = replace(result, text=f"{result.text}\n{words}")
        if self._after is not None and (remark := await self._after()):
            result = replace(result, text=f"{result.text}\n{remark}")
        result = replace(result, text=await self._shown_to_brain(result.text))
        self._recorder.record(
            ToolFinished,
            call_id=call.id,
            tool=call.name,
            text=result.text if result.recorded is None else result.recorded,
            is_error=result.is_error,
            exit_code=result.exit_code,
            route=result.route,
            duration=self._clock.monotonic() - began,
            spill=result.spill,
            offered=offered,
        )
        if self._finished is not None:
            await self._finished(call, result)
        return result

    def _told(self, call: ToolCall) -> dict[str, Any]:
        """A call's arguments as the journal holds them."""
        hidden = self._private(call.name, call.arguments) if self._private is not None else ()
        return {name: PRIVATE if name in hidden else value for name, value in call.arguments.items()}

    async def _shown_to_brain(self, text: str) -> str:
        text = self._scrub(text)
        return text if self._redact is None else await self._redact(text)


def is_deeper_than(value: object, depth: int) -> bool:
    """Whether lists and objects lie in each other more than `depth` levels deep."""
    level = [value]
    for _ in range(depth + 1):
        level = one_level_in(level)
        if not level:
            return False
    return True


def streamer(recorder: Recorder, call_id: str) -> OutputListener:
    """A listener that turns a command's bytes into streamed events; a character cut in two is put together again."""
    decoders: dict[str, Any] = {}

    def listen(chunk: OutputChunk) -> None:
        decoder = decoders.get(chunk.stream)
        if decoder is None:
            decoder = decoders[chunk.stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(chunk.data)
        if text:
            recorder.record(OutputStreamed, call_id=call_id, stream=chunk.stream, text=text)

    return listen
