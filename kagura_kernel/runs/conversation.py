"""The middle of an agent's run: the brain thinks, its tools act in the box, the books are kept."""

from __future__ import annotations

import codecs
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kagura_kernel.brain.in_box import ThinksInside
from kagura_kernel.brain.provider import (
    BrainDone,
    BrainEvent,
    BrainHeard,
    BrainProvider,
    BrainSession,
    BrainSign,
    BrainText,
    BrainToolCalled,
    BrainToolFinished,
    BrainUsage,
    Turn,
)
from kagura_kernel.domain.commands import OutputChunk, OutputListener
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, KaguraError, TurnsExhausted, UsageError
from kagura_kernel.domain.events import (
    BrainSigned,
    OutputStreamed,
    PlanLeft,
    TextStreamed,
    TextWritten,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.images import Image, NoImageError
from kagura_kernel.domain.nesting import is_deeper_than
from kagura_kernel.domain.tools import ShowImage, ToolCall, ToolResult, ToolSpec
from kagura_kernel.membrane.egress.hosts import ASK
from kagura_kernel.runs.context import RunContext
from kagura_kernel.runs.delegation import delegation_tools
from kagura_kernel.runs.exchange import ExchangeDirectory, Results
from kagura_kernel.runs.images import WITH_THE_TASK, ModelImages
from kagura_kernel.runs.ledger import Books
from kagura_kernel.runs.notebook import notebook_tools, show_notebook
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.runs.sealed_run import OwnTools, offered, open_inside, paced
from kagura_kernel.runs.toolsets import OpenToolsets, open_toolsets
from kagura_kernel.runs.variables import make_exchange
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import Runtime, use_approver
from kagura_kernel.sandbox.backend import WORKSPACE
from kagura_kernel.tools.briefing import Powers, Variables, goes_on, system_prompt
from kagura_kernel.tools.extension_tools import own_tools
from kagura_kernel.tools.shell import LONGEST_SECONDS, BoxPrograms, CommandLeases, ToolTimes
from kagura_kernel.tools.skills import SkillTool
from kagura_kernel.tools.standard import CarryOutTool, PlanTool, standard_toolbox
from kagura_kernel.tools.toolbox import Tool, Toolbox

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


log = logging.getLogger(__name__)

MAX_DEPTH = 64
"""Levels of a call's arguments; no tool of ours has more than three, and a row nested very deeply cannot be read."""

TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"

PRIVATE = "(not recorded: it is kept in the memory, where it can be erased)"
"""What stands in the journal for an argument that it does not hold."""


class RecordedTools:
    """Records every call before it runs and every result before the brain sees it."""

    def __init__(self, context: RunContext, toolbox: Toolbox, results: Results) -> None:
        self._context = context
        self._toolbox = toolbox
        self._results = results
        self._through = context.changes.through

    async def call(self, call: ToolCall) -> ToolResult:
        """One tool call, from the brain's request to the answer it reads."""
        await self._context.redacting.ready()
        try:
            return await self._recorded(call)
        except Exception as error:
            # Whatever a tool could not turn into a result ends the run, even if the brain hides it.
            self._context.stop(error)
            raise

    async def _recorded(self, call: ToolCall) -> ToolResult:
        context, clock = self._context, self._context.parts.clock
        deep = is_deeper_than(call.arguments, MAX_DEPTH)
        arguments = {"refused": TOO_DEEP} if deep else self._told(call)
        offered = self._toolbox.offers(call.name)
        context.recorder.record(ToolCalled, call_id=call.id, tool=call.name, arguments=arguments, offered=offered)
        began = clock.monotonic()
        if deep:
            result = ToolResult(f"{call.name} was not called: its arguments are {TOO_DEEP}.", is_error=True, route="")
        else:
            result = await self._carried_out(call)
        if result.shows and (shown := await self._results.collect(call.id)).words:
            # What its programs showed to the person, the brain learns too.
            result = replace(result, text=f"{result.text}\n{shown.words}", images=(*result.images, *shown.images))
        if self._through and (remark := await context.changes.write_through(context.box)):
            result = replace(result, text=f"{result.text}\n{remark}")
        text = await context.redacting.words(context.membrane.scrubber.scrub(result.text))
        if text != result.text:
            result = replace(result, text=text)
        context.recorder.record(
            ToolFinished,
            call_id=call.id,
            tool=call.name,
            text=result.text if result.recorded is None else result.recorded,
            is_error=result.is_error,
            exit_code=result.exit_code,
            route=result.route,
            duration=clock.monotonic() - began,
            spill=result.spill,
            offered=offered,
        )
        context.learning.used(call, result)
        context.trusting.used(call, result)
        await context.checkpoints.finished(call, result)
        return result

    async def _carried_out(self, call: ToolCall) -> ToolResult:
        context = self._context
        context.tool_calls += 1
        if (known := await context.checkpoints.before(call)) is not None:
            return known
        # A brain may call from a task of its own, started before this run's context was set.
        with use_approver(context.approver):
            return await self._toolbox.call(call, streamer(context.recorder, call.id))

    def _told(self, call: ToolCall) -> dict[str, Any]:
        """A call's arguments as the journal holds them."""
        hidden = self._toolbox.private(call.name, call.arguments)
        return {name: PRIVATE if name in hidden else value for name, value in call.arguments.items()}


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


async def converse(context: RunContext) -> Ending:
    """Let the brain work until it is done.

    Raises:
        KaguraError: what ended the conversation early.
    """
    order = context.order
    if order.brain is None:
        raise BrainNotConfigured("This run has no brain and no code of its own.")
    host = HostRunner(order.project, after=context.redacting.filter)
    runtime = _runtime(context, host)
    exchange = context.exchange = context.plugins.laid(await make_exchange(context, for_shell=True))
    scrubber = context.membrane.scrubber
    takes_images = order.brain.capabilities().images(order.model)
    show = ModelImages(exchange, context.recorder, scrubber).show if takes_images else None
    results = Results(exchange, context.recorder, scrubber, context.redacting, show)
    toolbox = _toolbox(context, runtime, exchange, show)
    if order.request.inputs:
        # What they are called and hold is told to the brain at once.
        await context.redacting.ready()
    toolsets = OpenToolsets()
    try:
        toolsets = await _open_toolsets(context, [spec.name for spec in toolbox.specs()], show)
        toolbox.add(*toolsets.tools)
        toolbox.add(*own_tools(context.parts.tools, runtime, [spec.name for spec in toolbox.specs()]))
        turn = _turn(context, toolbox, results, toolsets.briefing)
        pictures = await _pictures(order, show)
        told, pasted = await show_notebook(context, show)
        turn = replace(turn, images=(*pasted, *pictures))
        if told:
            turn = replace(turn, notebook=told)
        if isinstance(order.brain, ThinksInside):
            place = await open_inside(context, exchange)
            call_tool = paced(turn.call_tool, context.parts.clock)
            turn = replace(turn, tools=offered(turn.tools), call_tool=call_tool, inside=place)
        return await _listen(context, order.brain, turn)
    finally:
        if context.delegation is not None:
            await context.delegation.close()
        await toolsets.close()
        # Not the runtime: its box is still needed, to bring the changes out.
        await host.close()


def _toolbox(context: RunContext, runtime: Runtime, exchange: ExchangeDirectory, show: ShowImage | None) -> Toolbox:
    """Every tool of ours that this run has."""
    order = context.order
    said = order.request.command_timeout or order.most_limits.total
    longest = LONGEST_SECONDS if said is None else max(1, int(said))
    programs = BoxPrograms(
        exchange.environment,
        exchange.python_call,
        exchange.shown,
        sees=show is not None,
        remembers=context.had_python,
    )
    toolbox = standard_toolbox(
        runtime,
        times=ToolTimes(context.limits, longest, order.most_limits.idle),
        leases=_leases(context),
        programs=programs,
        spill_dir=context.spill_dir,
        show=show,
    )
    if not order.spec.policy.walled:
        context.kit.moved[WORKSPACE] = runtime.files.root
    if context.kit.skills and runtime.has_files:
        toolbox.add(SkillTool(runtime, context.kit.skills))
    toolbox.add(
        *_learned_tools(context, runtime),
        *notebook_tools(context, runtime.asker, show),
        *_planning_tools(context, runtime),
    )
    return toolbox


async def _pictures(order: RunOrder, show: ShowImage | None) -> tuple[Image, ...]:
    """What comes with the task.

    Raises:
        UsageError: one of them cannot be sent.
    """
    sent: list[Image] = []
    for picture in order.pictures:
        assert show is not None, "an order has pictures only for a brain that takes images"  # noqa: S101 - for the type checker
        try:
            sent.append(await show(WITH_THE_TASK, picture))
        except NoImageError as why:
            raise UsageError(f"The picture {picture.name} was not sent: {why}. Nothing was asked.") from why
    return tuple(sent)


def _turn(context: RunContext, toolbox: Toolbox, results: Results, toolsets: str) -> Turn:
    order = context.order
    specs = toolbox.specs()
    looks = [spec.name for spec in specs if spec.read_only or spec.name == PlanTool.spec.name]
    context.checkpoints.opened(looks, plugins=bool(context.plugins.briefing))
    return Turn(
        task=context.checkpoints.task(),
        system=_system(context, specs, toolsets),
        tools=specs,
        call_tool=RecordedTools(context, toolbox, results).call,
        model=order.model,
        budget_usd=context.account.left_usd,
        max_turns=order.max_turns,
        resume=order.resume,
        sentences=context.hearing.sentences,
    )


def _system(context: RunContext, specs: Sequence[ToolSpec], toolsets: str) -> str:
    """What the brain is told of its box, its tools and what is known."""
    order, redacting = context.order, context.redacting
    stayed = goes_on(context.changed_outside) if context.kept is not None else ""
    return system_prompt(
        specs,
        order.project.name,
        order.spec.policy,
        powers=_powers(context),
        variables=Variables(
            {one.name: redacting.text(one.summary) for one in order.request.inputs}, order.request.outputs
        ),
        write_mode=order.write_mode,
        mode=order.routing.mode,
        sandboxed=context.boxed,
        workspace=context.box.files.root,
        headless=order.request.headless,
        handed_on=bool(order.handoff.lineage),
        plans=order.plans_only,
        plugins=context.plugins.briefing,
        agent="\n\n".join(filter(None, (stayed, toolsets, context.kit.briefing(), *_learned(context)))),
    )


def _learned_tools(context: RunContext, runtime: Runtime) -> list[Tool]:
    """What the brain may ask of earlier runs, how it tells its plan, and how it hands work on."""
    return [*context.memory.tools(runtime.asker), *context.checkpoints.tools(), *delegation_tools(context)]


def _planning_tools(context: RunContext, runtime: Runtime) -> list[Tool]:
    """The way out of a run that only plans."""

    def leave(by: str, plan: str) -> None:
        context.recorder.record(PlanLeft, by=by, plan=plan)
        context.changes.plans_only = False

    # What a part of somebody's plan needs is a part of that plan.
    leaves = context.order.plans_only and not context.order.handoff.plans_only
    return [CarryOutTool(runtime.asker, leave)] if leaves else []


def _learned(context: RunContext) -> tuple[str, ...]:
    return (context.memory.briefing(), context.planned.briefing, context.checkpoints.briefing())


async def _open_toolsets(context: RunContext, taken: Sequence[str], show: ShowImage | None) -> OpenToolsets:
    agent = context.kit.order
    if agent is None or not agent.toolsets or not context.boxed:
        return OpenToolsets()
    redact = context.parts.redactor.fields
    return await open_toolsets(
        context, agent.toolsets, context.kit.hosts.installs, taken=taken, redact=redact, show=show
    )


def _leases(context: RunContext) -> CommandLeases:
    leasing = context.membrane.leasing
    return CommandLeases() if leasing is None else CommandLeases(leasing.for_commands, leasing.secret_env)


def _powers(context: RunContext) -> Powers:
    grant, leasing = context.membrane.grant, context.membrane.leasing
    return Powers(
        hosts=tuple(word for word in grant.net if word != ASK),
        asks=grant.egress.ask and not context.order.request.headless,
        leases=() if leasing is None else leasing.described(),
        writable_root=grant.writable_root,
    )


def _runtime(context: RunContext, host: HostRunner) -> Runtime:
    order = context.order
    return Runtime(
        context.box if context.boxed else None,
        host,
        order.routing,
        run_id=order.run_id,
        session_id=order.session_id,
        clock=context.working_time,
        missing_box=context.fallback,
    )


async def _listen(context: RunContext, brain: BrainProvider, turn: Turn) -> Ending:
    books = Books(context.account, context.recorder, context.parts.price, context.parts.clock)
    own = OwnTools(context)
    context.account.unasked = False
    async with aclosing(_thoughts(brain, context.checkpoints.thinking(brain, turn))) as thoughts:  # type: ignore[arg-type]
        async for event in thoughts:
            # While a brain thinks, the rules are compiled; nothing that it says is told before they are.
            await context.redacting.ready()
            match event:
                case BrainText() | BrainSign():
                    _say(context.recorder, event)
                case BrainUsage(usage, model):
                    books.count(usage, model)
                    context.account.check()
                case BrainSession(session):
                    context.checkpoints.brain_session(session)
                case BrainHeard():
                    context.hearing.heard(event)
                case BrainToolCalled():
                    own.called(event)
                case BrainToolFinished():
                    await own.finished(event)
                case BrainDone():
                    context.hearing.thought()
                    books.close(event)
                    return _done(context, event)
    raise BrainLost(brain.name, "it fell silent without finishing")


async def _thoughts(brain: BrainProvider, stream: AsyncGenerator[BrainEvent, None]) -> AsyncGenerator[BrainEvent, None]:
    """What a brain says; what goes wrong inside of one that another package brings is told as its own."""
    async with aclosing(stream):
        try:
            async for event in stream:
                yield event
        except Exception as error:
            if isinstance(error, KaguraError) or type(brain).__module__.startswith("kagura_kernel."):
                raise
            # Its text might hold anything; a person finds it in the log.
            log.exception("the brain %s failed", brain.name)
            raise BrainLost(brain.name, f"{type(error).__name__} in its code; the log has the details") from error


def _say(recorder: Recorder, event: BrainText | BrainSign) -> None:
    if isinstance(event, BrainSign):
        recorder.record(BrainSigned, **asdict(event))
    else:
        recorder.record(TextStreamed if event.partial else TextWritten, text=event.text)


def _done(context: RunContext, done: BrainDone) -> Ending:
    account = context.account
    if done.stopped == "budget":
        spent = account.cost.usd or 0.0
        return Ending("stopped", done.text, account.exhausted(spent), brain_session=done.session)
    if done.stopped == "turns":
        return Ending("stopped", done.text, TurnsExhausted(done.turns), brain_session=done.session)
    return Ending("done", done.text, brain_session=done.session)
