"""The middle of an agent's run: the brain thinks, its tools act in the box, the books are kept."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainProvider, BrainText, BrainUsage, Turn
from kagura_kernel.domain.commands import OutputListener
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, BudgetExhausted, TurnsExhausted
from kagura_kernel.domain.events import TextStreamed, TextWritten, TurnCounted
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.membrane.egress.hostsets import ASK
from kagura_kernel.runs.ending import Ending
from kagura_kernel.runs.hands import Hands
from kagura_kernel.runs.results import Results
from kagura_kernel.runs.stage import Stage
from kagura_kernel.runs.variables import lay_tray
from kagura_kernel.runtime.approving import use_approver
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import Runtime, RuntimeSettings
from kagura_kernel.tools.briefing import Powers, Variables, system_prompt
from kagura_kernel.tools.shell import LONGEST_SECONDS, BoxPrograms, CommandLeases, ToolTimes
from kagura_kernel.tools.standard import standard_toolbox

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


async def converse(stage: Stage) -> Ending:
    """Let the brain work until it is done.

    Raises:
        KaguraError: what ended the conversation early.
    """
    order, parts = stage.order, stage.parts
    if order.brain is None:
        raise BrainNotConfigured("This run has no brain and no code of its own.")
    host = HostRunner(order.project)
    runtime = _runtime(stage, host)
    longest = LONGEST_SECONDS if order.longest is None else max(1, int(order.longest))
    times = ToolTimes(order.limits, longest)
    tray = stage.tray = await lay_tray(stage, for_shell=True)
    results = Results(tray, stage.recorder, stage.membrane.scrubber)
    programs = BoxPrograms(tray.environment, tray.python_line, tray.open_call)
    toolbox = standard_toolbox(
        runtime, times=times, leases=_leases(stage), programs=programs, spill_dir=stage.spill_dir
    )

    async def use(call: ToolCall, listen: OutputListener) -> ToolResult:
        stage.tool_calls += 1
        # A brain may call from a task of its own, started before this run's context was set.
        with use_approver(stage.approver):
            return await toolbox.call(call, listen)

    async def write_through() -> str:
        return await stage.changes.write_through(stage.box)

    after = write_through if stage.changes.through else None
    hands = Hands(
        use,
        stage.recorder,
        parts.clock,
        fatal=stage.stop,
        shown=results.collect,
        after=after,
        scrub=stage.membrane.scrubber.scrub,
    )
    specs = toolbox.specs()
    turn = Turn(
        task=order.task,
        system=system_prompt(
            specs,
            order.project.name,
            order.spec.policy,
            powers=_powers(stage),
            variables=Variables({one.name: one.summary for one in order.inputs}, order.outputs),
            write_mode=order.write_mode,
            mode=order.routing.mode,
            headless=order.headless,
        ),
        tools=specs,
        call_tool=hands.call,
        model=order.model,
        budget_usd=order.budget_usd,
        max_turns=order.max_turns,
        resume=order.resume,
    )
    try:
        return await _listen(stage, order.brain, turn)
    finally:
        # Not the runtime: its box is still needed, to bring the changes out.
        await host.close()


def _leases(stage: Stage) -> CommandLeases:
    leasing = stage.membrane.leasing
    return CommandLeases() if leasing is None else CommandLeases(leasing.for_commands, leasing.secret_env)


def _powers(stage: Stage) -> Powers:
    grant, leasing = stage.order.grant, stage.membrane.leasing
    return Powers(
        hosts=tuple(word for word in grant.net if word != ASK),
        asks=grant.egress.ask and not stage.order.headless,
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
    stream: AsyncGenerator[BrainEvent, None] = brain.run(turn)  # type: ignore[assignment]
    async with aclosing(stream):
        async for event in stream:
            match event:
                case BrainText(text, partial=True):
                    stage.recorder.record(TextStreamed, text=text)
                case BrainText(text):
                    stage.recorder.record(TextWritten, text=text)
                case BrainUsage(usage, model):
                    _count(stage, usage, model)
                    stage.account.check()
                case BrainDone():
                    return _done(stage, event)
    raise BrainLost(brain.name, "it fell silent without finishing")


def _count(stage: Stage, usage: Usage, model: str) -> None:
    usd, source = stage.parts.price(usage, model, stage.parts.clock.now())
    stage.account.count(usage, model, usd, source)
    stage.recorder.record(
        TurnCounted,
        model=model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        computed_usd=usd,
        source=source,
    )


def _done(stage: Stage, done: BrainDone) -> Ending:
    account = stage.account
    if not account.turns and done.usage != Usage():
        # A brain that only tells the sum still gets a price.
        _count(stage, done.usage, done.model)
    account.reported_usd = done.reported_usd
    account.model = done.model or account.model
    account.turns = max(account.turns, done.turns)
    if done.stopped == "budget":
        spent = account.cost.usd or 0.0
        return Ending(
            "stopped", done.text, BudgetExhausted(spent, account.budget_usd or 0.0), brain_session=done.session
        )
    if done.stopped == "turns":
        return Ending("stopped", done.text, TurnsExhausted(done.turns), brain_session=done.session)
    return Ending("done", done.text, brain_session=done.session)
