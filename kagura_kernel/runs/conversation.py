"""The middle of an agent's run: the brain thinks, its tools act in the box, the books are kept."""

from __future__ import annotations

import codecs
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kagura_kernel.brain.inside import ThinksInside
from kagura_kernel.brain.provider import (
    BrainDone,
    BrainEvent,
    BrainProvider,
    BrainSession,
    BrainText,
    BrainToolCalled,
    BrainToolFinished,
    BrainUsage,
    Turn,
)
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.commands import OutputChunk, OutputListener
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, BudgetExhausted, TurnsExhausted
from kagura_kernel.domain.events import OutputStreamed, TextStreamed, TextWritten, ToolCalled, ToolFinished
from kagura_kernel.domain.nesting import one_level_in
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.membrane.egress.names import ASK
from kagura_kernel.runs.delegating import delegation_tools
from kagura_kernel.runs.ending import Ending
from kagura_kernel.runs.ledger import Books
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.sealing import OwnTools, offered, open_inside, paced
from kagura_kernel.runs.stage import Stage
from kagura_kernel.runs.toolsets import OpenToolsets, open_toolsets
from kagura_kernel.runs.tray import Results
from kagura_kernel.runs.variables import lay_tray
from kagura_kernel.runtime.approving import use_approver
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import Runtime, RuntimeSettings
from kagura_kernel.tools.briefing import Powers, Variables, system_prompt
from kagura_kernel.tools.own import own_tools
from kagura_kernel.tools.plan_tool import PlanTool
from kagura_kernel.tools.shell import LONGEST_SECONDS, BoxPrograms, CommandLeases, ToolTimes
from kagura_kernel.tools.skills import SkillTool
from kagura_kernel.tools.standard import standard_toolbox
from kagura_kernel.tools.toolbox import Tool, Toolbox

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


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


async def converse(stage: Stage) -> Ending:
    """Let the brain work until it is done.

    Raises:
        KaguraError: what ended the conversation early.
    """
    order = stage.order
    if order.brain is None:
        raise BrainNotConfigured("This run has no brain and no code of its own.")
    host = HostRunner(order.project, after=stage.redacting.filter)
    runtime = _runtime(stage, host)
    longest = LONGEST_SECONDS if order.request.command_timeout is None else max(1, int(order.request.command_timeout))
    times = ToolTimes(order.limits, longest)
    tray = stage.tray = stage.plugins.laid(await lay_tray(stage, for_shell=True))
    results = Results(tray, stage.recorder, stage.membrane.scrubber, stage.redacting)
    programs = BoxPrograms(tray.environment, tray.python_line, tray.open_call)
    toolbox = standard_toolbox(
        runtime, times=times, leases=_leases(stage), programs=programs, spill_dir=stage.spill_dir
    )
    if stage.kit.skills:
        toolbox.add(SkillTool(runtime, stage.kit.skills))
    toolbox.add(*_learned_tools(stage))
    if order.request.inputs:
        # What they are called and hold is told to the brain at once.
        await stage.redacting.ready()
    toolsets = OpenToolsets()
    try:
        toolsets = await _open_toolsets(stage, [spec.name for spec in toolbox.specs()])
        toolbox.add(*toolsets.tools)
        toolbox.add(*own_tools(stage.parts.tools, runtime, [spec.name for spec in toolbox.specs()]))
        brain = order.brain if stage.checkpoints is None else stage.checkpoints.thinking(order.brain)
        turn = _turn(stage, toolbox, results, toolsets.briefing)
        if isinstance(order.brain, ThinksInside):
            place = await open_inside(stage, tray)
            call_tool = paced(turn.call_tool, stage.parts.clock)
            turn = replace(turn, tools=offered(turn.tools), call_tool=call_tool, inside=place)
        return await _listen(stage, brain, turn)
    finally:
        if stage.delegation is not None:
            await stage.delegation.close()
        await toolsets.close()
        # Not the runtime: its box is still needed, to bring the changes out.
        await host.close()


def _turn(stage: Stage, toolbox: Toolbox, results: Results, toolsets: str) -> Turn:
    order, parts = stage.order, stage.parts

    async def use(call: ToolCall, listen: OutputListener) -> ToolResult:
        stage.tool_calls += 1
        if stage.checkpoints is not None and (known := await stage.checkpoints.before(call)) is not None:
            return known
        # A brain may call from a task of its own, started before this run's context was set.
        with use_approver(stage.approver):
            return await toolbox.call(call, listen)

    async def write_through() -> str:
        return await stage.changes.write_through(stage.box)

    async def call_tool(call: ToolCall) -> ToolResult:
        await stage.redacting.ready()
        return await hands.call(call)

    async def finished(call: ToolCall, result: ToolResult) -> None:
        if stage.learning is not None:
            stage.learning.used(call, result)
        if stage.trusting is not None:
            stage.trusting.used(call, result)
        if stage.checkpoints is not None:
            await stage.checkpoints.finished(call, result)

    after = write_through if stage.changes.through else None
    hands = Hands(
        use,
        stage.recorder,
        parts.clock,
        fatal=stage.stop,
        shown=results.collect,
        after=after,
        scrub=stage.membrane.scrubber.scrub,
        redact=stage.redacting.words,
        private=toolbox.private,
        offered=toolbox.offers,
        finished=finished,
    )

    specs = toolbox.specs()
    if stage.checkpoints is not None:
        looks = [spec.name for spec in specs if spec.read_only or spec.name == PlanTool.spec.name]
        stage.checkpoints.opened(looks, plugins=bool(stage.plugins.briefing))
    return Turn(
        task=order.task if stage.checkpoints is None else stage.checkpoints.task(),
        system=system_prompt(
            specs,
            order.project.name,
            order.spec.policy,
            powers=_powers(stage),
            variables=Variables(
                {one.name: stage.redacting.text(one.summary) for one in order.request.inputs}, order.request.outputs
            ),
            write_mode=order.write_mode,
            mode=order.routing.mode,
            headless=order.request.headless,
            handed_on=bool(order.handoff.lineage),
            plugins=stage.plugins.briefing,
            agent="\n\n".join(filter(None, (toolsets, stage.kit.briefing(), *_learned(stage)))),
        ),
        tools=specs,
        call_tool=call_tool,
        model=order.model,
        budget_usd=stage.account.budget_usd,
        max_turns=order.max_turns,
        resume=order.resume,
    )


def _learned_tools(stage: Stage) -> list[Tool]:
    """What the brain may ask of earlier runs, how it tells its plan, and how it hands work on."""
    memory = stage.memory.tools() if stage.memory is not None else ()
    plan = stage.checkpoints.tools() if stage.checkpoints is not None else ()
    return [*memory, *plan, *delegation_tools(stage)]


def _learned(stage: Stage) -> tuple[str, ...]:
    memory = stage.memory.briefing() if stage.memory is not None else ""
    resumed = stage.checkpoints.briefing() if stage.checkpoints is not None else ""
    return (memory, stage.planned.briefing, resumed)


async def _open_toolsets(stage: Stage, taken: Sequence[str]) -> OpenToolsets:
    agent, redactor = stage.kit.order, stage.parts.redactor
    if agent is None or not agent.toolsets:
        return OpenToolsets()
    redact = redactor.fields if redactor is not None else _as_it_is
    return await open_toolsets(stage, agent.toolsets, stage.kit.hosts.installs, taken=taken, redact=redact)


def _as_it_is(value: Any) -> Any:
    return value


def _leases(stage: Stage) -> CommandLeases:
    leasing = stage.membrane.leasing
    return CommandLeases() if leasing is None else CommandLeases(leasing.for_commands, leasing.secret_env)


def _powers(stage: Stage) -> Powers:
    grant, leasing = stage.membrane.grant, stage.membrane.leasing
    return Powers(
        hosts=tuple(word for word in grant.net if word != ASK),
        asks=grant.egress.ask and not stage.order.request.headless,
        leases=() if leasing is None else leasing.described(),
        writable_root=grant.writable_root,
    )


def _runtime(stage: Stage, host: HostRunner) -> Runtime:
    order, routing = stage.order, stage.order.routing
    settings = RuntimeSettings(
        mode=routing.mode,
        policy=order.spec.policy,
        strict=routing.strict,
        preapproved=routing.preapproved,
        deadline=routing.approval_deadline,
    )
    return Runtime(stage.box, host, settings, run_id=order.run_id, session_id=order.session_id, clock=stage.parts.clock)


async def _listen(stage: Stage, brain: BrainProvider, turn: Turn) -> Ending:
    books = Books(stage.account, stage.recorder, stage.parts.price, stage.parts.clock)
    own = OwnTools(stage)
    stream: AsyncGenerator[BrainEvent, None] = brain.run(turn)  # type: ignore[assignment]
    async with aclosing(stream):
        async for event in stream:
            # While a brain thinks, the rules are compiled; nothing that it says is told before they are.
            await stage.redacting.ready()
            match event:
                case BrainText(text, partial=True):
                    stage.recorder.record(TextStreamed, text=text)
                case BrainText(text):
                    stage.recorder.record(TextWritten, text=text)
                case BrainUsage(usage, model):
                    books.count(usage, model)
                    stage.account.check()
                case BrainSession(session) if stage.checkpoints is not None:
                    stage.checkpoints.brain_session(session)
                case BrainToolCalled():
                    own.called(event)
                case BrainToolFinished():
                    await own.finished(event)
                case BrainDone():
                    books.close(event)
                    return _done(stage, event)
    raise BrainLost(brain.name, "it fell silent without finishing")


def _done(stage: Stage, done: BrainDone) -> Ending:
    account = stage.account
    if done.stopped == "budget":
        spent = account.cost.usd or 0.0
        return Ending(
            "stopped", done.text, BudgetExhausted(spent, account.budget_usd or 0.0), brain_session=done.session
        )
    if done.stopped == "turns":
        return Ending("stopped", done.text, TurnsExhausted(done.turns), brain_session=done.session)
    return Ending("done", done.text, brain_session=done.session)
