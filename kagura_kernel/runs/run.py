"""One run, from the order to its last event.

*prepare* (the journal takes the first row, or nothing happens; the kit of its agent is staged; the grant is shown, and
asked about) → *launch* (a box,
then what may cross its wall) → *converse* (the brain thinks, its tools act in the box, or the cell's own code runs) →
*settle* (changes collected, leases given back, box closed, ledger row). Stopping it at any await leaves no process,
container, lease or pending approval behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

from kagura_kernel.domain.commands import Command, CommandResult
from kagura_kernel.domain.errors import (
    CellFailed,
    ChangesIncomplete,
    JournalError,
    KaguraError,
    RunKilled,
    SandboxCommandTimeout,
    SandboxDied,
    SandboxIdleTimeout,
    SessionBusy,
    WorkspaceUnreadable,
)
from kagura_kernel.domain.events import (
    AnyEvent,
    Noted,
    RunFinished,
    RunStarted,
    RunVerified,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.outcome import FileChange, RunOutcome, by_path
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.journal.views import busy_elsewhere
from kagura_kernel.membrane.changes import LEFT
from kagura_kernel.membrane.membrane import Membrane
from kagura_kernel.membrane.run_leases import Leasing
from kagura_kernel.runs.change_restore import restore_changes
from kagura_kernel.runs.context import RunContext
from kagura_kernel.runs.conversation import converse, streamer
from kagura_kernel.runs.exchange import ExchangeDirectory, Results
from kagura_kernel.runs.kit import open_kit
from kagura_kernel.runs.notebook import count_of
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.plan import plan_run
from kagura_kernel.runs.plugins import BOXED_PACKAGE, open_plugins, refresh_plugins
from kagura_kernel.runs.recorder import told
from kagura_kernel.runs.run_box import RunBox
from kagura_kernel.runs.run_end import Ending, Work, ending_of
from kagura_kernel.runs.variables import Brought, collect_outputs, make_exchange
from kagura_kernel.runs.verification import Verification
from kagura_kernel.sandbox.backend import Box

CALL_ID = "cell"
_CODE = "The cell's code"

NONE_ENABLED = (
    f"No plugin is enabled in this session, so there is no {BOXED_PACKAGE} in its boxes. `%kagura plugin list` shows "
    "which there are and what keeps one out, `%kagura plugin enable NAME` enables one."
)
"""For a program that looks for a plugin where none is."""


SESSION_ENDED = "The Python session ended with this cell: its variables and imports are gone, the files are not."
SESSION_NEW = "The Python session of the cells before had ended: this cell began a new one, without their variables."


async def run_cell(context: RunContext) -> Ending:
    """Run the cell's code to its end; a failing program is an ending, not an error.

    Raises:
        SandboxError: a limit was reached, or the box is gone.
        VariableRefused: the box has no room for a variable.
    """
    language, code = context.order.request.language or "python", context.order.task
    exchange = context.exchange = context.plugins.laid(await make_exchange(context, for_shell=language == "bash"))
    command = await _command(context, exchange)
    context.tool_calls = 1
    context.recorder.record(ToolCalled, call_id=CALL_ID, tool=language, arguments={"code": code}, offered=True)
    result = await _run(context, exchange, command)
    spill = result.stdout.spill or result.stderr.spill
    text = result.stdout.text + (result.stderr.text if result.stderr.total else "")
    await context.recorder.ready_for(text)
    context.recorder.record(
        ToolFinished,
        call_id=CALL_ID,
        tool=language,
        text=text,
        is_error=not result.ok,
        exit_code=result.exit_code,
        route="sandbox",
        duration=result.duration,
        spill=spill.name if spill else None,
        offered=True,
    )
    if not result.ok and context.plugins.search is None and BOXED_PACKAGE in result.stderr.text:
        context.recorder.record(Noted, text=NONE_ENABLED)
    if context.changes.through:
        await context.changes.write_through(context.box)
    error = None if result.ok else CellFailed(result.exit_code, silent=not text)
    return Ending("done" if result.ok else "failed", result.stdout.text, error, exit_code=result.exit_code)


async def _command(context: RunContext, exchange: ExchangeDirectory) -> Command:
    """Put the cell's code into the box; the command that runs it."""
    is_python = context.order.request.language != "bash"
    path = f"{exchange.scratch}/cell.{'py' if is_python else 'sh'}"
    # A file, not `-c`: tracebacks show the line, and standard input stays free.
    code = context.order.task.encode("utf-8", "surrogatepass")
    if is_python and exchange.cell:
        # It stays, and so does its Python.
        call = await exchange.python_call(CALL_ID, code)
        return replace(
            call,
            env=exchange.environment(CALL_ID),
            limits=context.limits,
            spill_dir=context.spill_dir,
            name=_CODE,
        )
    await context.box.files.write(path, code)
    # The cell's own directory is /tmp; modules are looked for where the cell works.
    modules = [context.box.files.root] if is_python else []
    leasing = context.membrane.leasing
    return Command(
        await exchange.python(path, CALL_ID, first=exchange.scratch) if is_python else ("bash", path),
        env=exchange.environment(CALL_ID, modules),
        limits=context.limits,
        spill_dir=context.spill_dir,
        # The cell's program is the one process that credentials in variables are for.
        secret_env={} if leasing is None else leasing.secret_env(),
        shows=exchange.shown(CALL_ID),
        name=_CODE,
    )


async def _run(context: RunContext, exchange: ExchangeDirectory, command: Command) -> CommandResult:
    """The program to its end, and what it showed; the latter also where a limit ended it."""
    results = Results(exchange, context.recorder, context.membrane.scrubber, context.redacting)
    try:
        result = await context.box.run(command, streamer(context.recorder, CALL_ID))
    except (SandboxCommandTimeout, SandboxIdleTimeout) as error:
        await results.collect(CALL_ID)
        if command.resident and not error.goes_on:
            context.recorder.record(Noted, text=SESSION_ENDED)
        raise
    if result.resident == "gone":
        context.recorder.record(Noted, text=SESSION_ENDED)
    elif context.had_python and result.resident == "new":
        context.recorder.record(Noted, text=SESSION_NEW)
    if result.shown:
        await results.collect(CALL_ID)
    return result


log = logging.getLogger(__name__)

KILLED_SETTLE_SECONDS = 5.0
"""How long a run that was stopped may take to bring its changes out; any other may while its box says something."""

GIVE_BACK_SECONDS = 2.0
"""How long a box waits for the run's leases to be given back before it is closed all the same."""


class Run:
    """A run that can be listened to once, and stopped at any time."""

    def __init__(self, order: RunOrder, parts: RunParts) -> None:
        self.order = order  # What was asked for
        self.outcome: RunOutcome | None = None  # How it ended; None until the iterator of events has ended
        self._parts = parts
        self._context = RunContext(order, parts, self._stop)
        self._work = Work(order.run_id)
        self._verification = Verification(order, parts, self._context.recorder.record, self._context.shown)
        self._verified: RunVerified | None = None
        self._left: tuple[str, ...] = ()
        self._brought = Brought()
        self._box = RunBox(order, parts, self._context.recorder)
        self._why_not = "the run did not come to its end"
        self._settling: asyncio.Timeout | None = None
        self._cut_by: BaseException | None = None
        self._is_cut = False
        self._giving_back: asyncio.Task[None] | None = None

    @property
    def membrane(self) -> Membrane:
        """What crosses the wall of its box."""
        return self._context.membrane

    @property
    def leasing(self) -> Leasing | None:
        """What it holds, while it has credentials."""
        return self._context.membrane.leasing

    def kill(self, by: str) -> None:
        """Stop it, on the run's own loop: commands end, changes are still collected. May be called twice."""
        self._stop(RunKilled(self.order.run_id, by))

    async def say(self, sentence: Sentence) -> str:
        """Tell its brain something, on the run's own loop: why that cannot be, as a clause; empty where it can.

        Raises:
            JournalError: it could not be stored; the brain is not told.
        """
        return await self._context.hearing.take(sentence)

    def events(self) -> AsyncIterator[AnyEvent]:
        """Everything that happens, to the end. Closing the iterator early stops the run.

        Raises:
            JournalError: a fact could not be stored; the run was stopped.
        """
        return told(self._context.recorder, self._drive, f"drive {self.order.run_id}")

    async def _drive(self) -> None:
        began = self._parts.clock.monotonic()
        self._context.redacting.warm()
        # What it says first is looked at beside the loop, since the rules may not be compiled yet.
        await self._context.redacting.words(self.order.task)
        self._record_start()
        self._context.hearing.begin()
        ending = Ending("killed", error=RunKilled(self.order.run_id, "the end of its process"))
        changes: tuple[FileChange, ...] = ()
        try:
            ending = await self._work.to_the_end(self._launch_and_converse())
            # Nothing of the run needs them any more, and collecting changes may take its time.
            self._give_back()
            self._brought = await self._bring_back(ending)
            ending = await self._settle(ending)
            await self._context.recorder.ready_for(ending.text, ending.error_text)
            self._box.begin_close(self._given_back)
            changes = self._context.changes.left
            await self._learn(ending, self._context.changes.as_files)
            self._why_not = "its changes could not all be brought out" if self._is_cut else ""
        finally:
            await self._close()
            self._drop_empty_outputs()
            self._finish(ending, changes, self._parts.clock.monotonic() - began)

    # ----------------------------------------------------------------- prepare

    def _record_start(self) -> None:
        order = self.order
        self._context.recorder.record(
            RunStarted,
            task=order.task,
            flavour="sandbox" if order.request.language else "agent",
            brain=order.brain.name if order.brain else "",
            brain_reason=order.brain_reason,
            model=order.model,
            project=str(order.project),
            write_mode=order.write_mode,
            budget_usd=order.budget_usd,
            origin=order.request.origin,
            started_by=order.request.started_by,
            user=order.user,
            owner=order.owner,
            headless=order.request.headless,
            protected=self._context.changes.protected,
            notebook=order.place.notebook,
            kernel_id=order.place.kernel_id,
            cell_id=order.place.cell_id,
            lineage=order.handoff.lineage,
            resumes=order.resumes.run_id if order.resumes is not None else "",
            verify=order.verify,
            plans_only=order.plans_only,
            follows=order.follows.run_id if order.resume else "",
            follows_count=count_of(order),
            left="" if order.resume else order.left,
        )

    def _check_session(self) -> None:
        # Two processes may have looked at the same time: the first one that has a row goes on.
        order = self.order
        if first := busy_elsewhere(self._parts.journal, order.session_id, order.owner, before=order.run_id):
            raise SessionBusy(order.session_id, first)

    # ----------------------------------------------------- launch and converse

    async def _launch_and_converse(self) -> Ending:
        order, context = self.order, self._context
        record = context.recorder.record
        await asyncio.to_thread(self._check_session)
        if order.brain is not None:
            await context.memory.open()
            context.planned = await plan_run(
                order, self._parts, context.memory, context.approver, record, context.shown
            )
            context.account.budget_usd = context.planned.budget_usd
            context.learning.warned = context.planned.lessons
            await context.checkpoints.prepare()
        context.kit = await open_kit(order, self._parts, record)
        context.membrane.grant = context.kit.grant(order.grant)
        await context.membrane.approve()
        await refresh_plugins(order, self._parts, record)
        await context.changes.begin()
        box, kept = await self._box.open(context.kit.spec(order.spec))
        context.fallback = self._box.fallback
        if kept is not None:
            context.go_on(kept)
            if order.brain is not None:
                context.changed_outside = await asyncio.to_thread(context.changes.changed_outside)
        watch = asyncio.create_task(self._watch(box), name=f"watch {box.id}")
        try:
            # Its branches by the names that they have: what they are called is redacted where it is told.
            await context.commits.begin(box, goes_on=kept is not None)
            return await self._converse(await context.membrane.open(box, context.redacting.filter))
        finally:
            watch.cancel()
            await asyncio.wait({watch})

    async def _converse(self, box: Box) -> Ending:
        context = self._context
        context.open_box, context.converses = box, True
        if self.order.request.changes:
            await restore_changes(box, self.order.request.changes, self._parts.blobs)
        await context.checkpoints.begin(box)
        port = context.kept.plugin_port if context.kept is not None else 0
        context.plugins = await open_plugins(
            box, self.order, self._parts, context.recorder.record, self._stop, context.held, port
        )
        try:
            return await (run_cell(context) if self.order.request.language else converse(context))
        finally:
            # What goes on in the box while its changes are collected calls nothing any more.
            await context.plugins.close()

    async def _watch(self, box: Box) -> None:
        why = await box.wait_closed()
        # Only back-ends whose boxes are elsewhere tell it.
        lost = bool(getattr(box, "lost", False))
        self._stop(SandboxDied(box.id, why or "it was closed from outside", lost=lost))

    def _stop(self, cause: BaseException) -> None:
        if self._work.stop(cause):
            return
        self._verification.stop()
        self._context.trusting.stop()
        if self._settling is not None:
            # It has ended by itself, and takes its time to bring out what it leaves.
            self._cut_by = self._cut_by or cause
            latest = asyncio.get_running_loop().time() + KILLED_SETTLE_SECONDS
            self._settling.reschedule(min(self._settling.when() or latest, latest))

    # ------------------------------------------------------------------ settle

    async def _settle(self, ending: Ending) -> Ending:
        """Bring the changes out; how the run ended after that."""
        if (box := self._box.box) is None or isinstance(ending.error, SandboxDied):
            return ending
        try:
            async with self._settles(ending):
                await self._context.changes.settle(box)
                await self._context.commits.settle(box, self._context.changes.mode)
        except JournalError:
            raise
        except (KaguraError, TimeoutError) as error:
            lost = self._lost(error)
            why = error.message if isinstance(error, KaguraError) else "the run was stopped meanwhile"
            self._context.recorder.record(Noted, text=lost.message)
            self._is_cut = True
            if ending.status == "done":
                self._verification.lost(why)
                return replace(ending_of(self._cut_by or lost), text=ending.text, brain_session=ending.brain_session)
        return ending

    def _lost(self, error: KaguraError | TimeoutError) -> KaguraError:
        if isinstance(error, WorkspaceUnreadable):
            # All of it is out of the box, and did not get into the project.
            return error
        why = error.message if isinstance(error, KaguraError) else "the run was stopped meanwhile"
        changes = self._context.changes.left
        left = sum(change.reason == LEFT for change in changes)
        return ChangesIncomplete(self.order.run_id, len(changes) - left, left, why)

    @contextlib.asynccontextmanager
    async def _settles(self, ending: Ending) -> AsyncIterator[None]:
        """What is done in it may take as long as the box says something; a run that somebody stops, not long."""
        stopped = ending.status == "killed" or self._cut_by is not None
        try:
            async with asyncio.timeout(KILLED_SETTLE_SECONDS if stopped else None) as self._settling:
                yield
        finally:
            self._settling = None

    async def _learn(self, ending: Ending, changes: tuple[FileChange, ...]) -> None:
        """Try the work out where that was asked for, and keep what later runs can learn from this one."""
        context = self._context
        # What was cut short is no state to go on from; an earlier look is.
        await context.checkpoints.ended(ending, () if self._is_cut else changes)
        if self.order.brain is None:
            return
        if ending.status == "done" or self._verification.why_lost:
            # Of work that got lost it is told that it has not passed.
            self._verified = await self._verification.run(changes)
        try:
            if self.order.leaves:
                cost, began, acted = context.account.cost, self._has_begun(ending), context.tool_calls > 0
                own = tuple(one for one in changes if one.path not in context.changes.still)
                left = await context.memory.leave(ending, self._proof, cost, own, began=began, acted=acted)
                # A lesson is joined to the summary of the run that it comes from.
                self._left = (*left, *await context.learning.leave(ending, self._proof, left))
        except JournalError:
            raise
        except KaguraError as error:
            context.recorder.record(
                Noted, text=f"What the run could have taught later ones was not kept: {error.message}"
            )
        await context.trusting.settle(ending, self._proof, context.approver)

    def _has_begun(self, ending: Ending) -> bool:
        """Whether it came to think or to do anything before somebody said no to it, or called it off."""
        context = self._context
        if context.account.turns or context.tool_calls:
            return True
        return ending.status != "denied" and (context.converses or ending.status != "killed")

    @property
    def _proof(self) -> RunVerified | None:
        """How its verification went. A child's was chosen by an agent: its parent is told, and it proves nothing."""
        return None if self.order.handoff.lineage else self._verified

    async def _bring_back(self, ending: Ending) -> Brought:
        context = self._context
        if context.exchange is None or ending.status not in ("done", "stopped"):
            # What a failed program has left half done is not wanted under its name.
            return Brought()
        try:
            async with self._settles(ending):
                return await collect_outputs(context, context.exchange)
        except JournalError:
            raise
        except (KaguraError, TimeoutError) as error:
            why = error.message if isinstance(error, KaguraError) else "the run was stopped meanwhile"
            context.recorder.record(Noted, text=f"The run's variables could not be brought out of its box: {why}")
            return Brought(missing=tuple((name, why) for name in context.exchange.outputs))

    async def _close(self) -> None:
        closing = asyncio.ensure_future(self._free())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            # Stopped once more while closing: leases and box have to be gone before anyone says that the run is.
            await asyncio.wait({closing})
            raise

    def _give_back(self) -> asyncio.Task[None]:
        if self._giving_back is None:
            closing = self._context.membrane.close()
            self._giving_back = asyncio.create_task(closing, name=f"give back {self.order.run_id}")
        return self._giving_back

    async def _given_back(self) -> None:
        # What was injected leaves the box while there is one; a provider that hangs does not keep the box alive.
        await asyncio.wait({self._give_back()}, timeout=GIVE_BACK_SECONDS)

    async def _free(self) -> None:
        giving_back = self._give_back()
        await self._given_back()
        context = self._context
        if not giving_back.done() or giving_back.exception() is not None:
            self._why_not = "what the run was granted could not be taken back in time"
        try:
            facts = {"untrusted": context.memory.untrusted, "plugin_port": context.plugins.port}
            await self._box.close(context.changes, facts, why_not=self._why_not, free=context.kit.close)
        finally:
            await giving_back

    def _drop_empty_outputs(self) -> None:
        # Outputs that were given up, when the disk was full, have left their folder behind.
        with contextlib.suppress(OSError):
            (self._parts.spill_root / self.order.run_id).rmdir()

    def _finish(self, ending: Ending, changes: tuple[FileChange, ...], duration: float) -> None:
        context = self._context
        context.hearing.end()
        account, estimate = context.account, context.planned.estimate
        status, told = ending.status, by_path(changes)
        self.outcome = RunOutcome(
            run_id=self.order.run_id,
            session_id=self.order.session_id,
            status=status,
            text=context.shown(ending.text),
            cost=account.cost,
            usage=account.usage,
            changes=context.redacting.value(tuple(({**told, **context.changes.cells, **told}).values())),
            duration=duration,
            error_code=ending.error_code,
            error=context.shown(ending.error_text),
            exit_code=ending.exit_code,
            outputs=self._brought.outputs,
            missing=tuple((name, context.shown(why)) for name, why in self._brought.missing),
            verified=None if self._verified is None else self._verified.passed,
            memories=self._left,
            children=account.children,
            children_usd=account.children_usd,
        )
        context.recorder.record(
            RunFinished,
            status=status,
            text=ending.text,
            error_code=ending.error_code,
            error=ending.error_text,
            brain=self.order.brain.name if self.order.brain else "",
            tool_calls=context.tool_calls,
            **account.figures(self.order.model),
            duration=duration,
            exit_code=ending.exit_code,
            brain_session=ending.brain_session,
            changed_files=len(changes),
            estimated_usd=estimate.usd if estimate is not None else None,
            estimated_seconds=estimate.seconds if estimate is not None else None,
            verified=None if self._verified is None else self._verified.passed,
            untrusted=context.memory.untrusted,
        )
