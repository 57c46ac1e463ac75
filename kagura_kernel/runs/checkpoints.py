"""Where a run stands, stored after each step, and how another run goes on from there.

What is stored opens nothing: of credentials there is what was left of their budgets, of memories their ids, and every
text has gone through redaction. A run without a memory, and a cell's own code, store nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields, replace
from typing import Any

from kagura_kernel.brain.provider import REPLAY, BrainEvent, BrainProvider, Turn
from kagura_kernel.domain.errors import BrainForgot, JournalError, KaguraError
from kagura_kernel.domain.events import Noted
from kagura_kernel.domain.events.memory import RunCheckpointed
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.patterns import Checkpoint, LeftBudget
from kagura_kernel.domain.policy import PermissionMode
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal.checkpoints import digest_of, store
from kagura_kernel.membrane.egress.hosts import NONE
from kagura_kernel.membrane.grant import WRITE_THROUGH
from kagura_kernel.membrane.membrane import Membrane
from kagura_kernel.patterns.steps import EARLIER, KINDS, Fold, bounded, shorten
from kagura_kernel.runs.memory_outcome import agent_of
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.resumption import CheckpointParts, Resumption
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.runs.run_memory import pushed
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.tools.standard import PlanTool
from kagura_kernel.tools.toolbox import Tool

_USUAL = {one.name: one.default for one in fields(FileChange) if one.name not in ("path", "status")}


def options_of(order: RunOrder, looks: Sequence[str], *, plugins: bool) -> dict[str, Any]:
    """What a person chose for a run, as the options of a checkpoint; without what its agent's definition asked for.

    Args:
        order: The run's.
        looks: Names of its tools that change nothing.
        plugins: Whether its box could call plugins.
    """
    grant = order.grant
    own = (word for word in grant.net if word not in grant.usual and word not in grant.asked)
    return {
        "project": str(order.project),
        "agent": order.agent.reference if order.agent is not None else "",
        "model": order.model,
        "box": order.box,
        "image": order.spec.image if order.spec.image_required else None,
        "net": [*([NONE] if grant.closed else []), *own],
        "credentials": [str(one) for one in grant.credentials if f"credential {one}" not in grant.asked],
        "policy": order.request.policy,
        "writable_root": grant.writable_root,
        "write_mode": None if WRITE_THROUGH in grant.asked else order.write_mode.value,
        "command_timeout": order.request.command_timeout,
        "idle_timeout": order.request.idle_timeout,
        "max_turns": order.max_turns,
        "context": order.request.context,
        "outputs": list(order.request.outputs),
        "verify": order.verify,
        "workers": order.delegation.workers,
        "looks": list(looks),
        "plugins": plugins,
        "full_control": order.routing.mode is PermissionMode.FULL_CONTROL,
    }


def fields_of(change: FileChange) -> dict[str, object]:
    """A change as a checkpoint keeps it: without its diff, and without what is as usual, since there may be many."""
    told = {name: getattr(change, name) for name in _USUAL if name != "diff"}
    return {"path": change.path, "status": change.status} | {
        name: value for name, value in told.items() if value != _USUAL[name]
    }


async def or_afresh(brain: BrainProvider, turn: Turn, forgot: Callable[[], None]) -> AsyncGenerator[BrainEvent, None]:
    """What a brain says, that of a conversation begun anew where it has forgotten the one it was to go on with.

    Args:
        brain: The brain.
        turn: What it is asked.
        forgot: Called before it begins anew.
    """
    while True:
        stream = brain.run(turn)
        try:
            async with aclosing(stream) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        except BrainForgot:
            if not turn.resume:
                raise
            # It says so before anything else, so nothing was done twice.
            forgot()
            turn = replace(turn, resume="")
        else:
            return


LONGEST_TASK = 64 * 1024
"""Characters of a task that are kept."""

LONGEST_TRACKED = 2_000
"""Characters of a task that a task tracker is told."""

MOST_FILES = 5_000
"""Changed files of a workspace that are kept."""

LOOK_SECONDS = 10.0
"""How long it may take to look at a workspace between two steps."""

QUICK_SECONDS = 0.05
"""A workspace that is looked at in this time is looked at after every step; …"""

SHARE = 20
"""… otherwise not before this many times that time has passed."""


class Checkpointing:
    """One run's; on its loop."""

    def __init__(self, around: CheckpointParts) -> None:
        order, parts = around.order, around.parts
        self._around = around
        self._active = order.brain is not None and parts.memory is not None
        # A cassette is played from its beginning, always.
        self._stores = self._active and order.brain is not None and order.brain.name != REPLAY
        self._from = Resumption(around, order.resumes) if order.resumes is not None else None
        self._box: Box | None = None
        self._fold = Fold(order.run_id)
        self._seq = 0
        self._plan: tuple[str, ...] = ()
        self._planned_done = 0
        self._untold = False  # Whether the memory's server has not taken how the task stands
        self._session = ""
        self._changes: tuple[Mapping[str, object], ...] = ()
        self._collected = 0
        self._not_before = 0.0
        self._troubled = False
        # What was left before everything was given back, which may go on while the last one is stored.
        self._budgets: tuple[LeftBudget, ...] = ()
        self._one_at_a_time = asyncio.Lock()

    # ------------------------------------------------------------ for the brain

    def tools(self) -> Sequence[Tool]:
        """How the brain says what its plan is, and what of it is done."""
        return (PlanTool(self._keep_plan),) if self._active else ()

    def opened(self, looks: Collection[str], *, plugins: bool) -> None:
        """Which of its tools change nothing, and whether its box can call plugins."""
        self._fold.looks, self._fold.plugins = frozenset(looks), plugins

    def briefing(self) -> str:
        """What the brain of a run that goes on from another one is told; empty for a fresh run."""
        return self._from.briefing() if self._from is not None else ""

    def task(self) -> str:
        """The task as the brain reads it."""
        task = self._around.order.task
        return task if self._from is None else f"Go on with this task, which was interrupted:\n\n{task}"

    def thinking(self, brain: BrainProvider, turn: Turn) -> AsyncIterator[BrainEvent]:
        """What the brain says; where it is to go on with a conversation and has forgotten it, it begins anew."""
        return brain.run(turn) if self._from is None else or_afresh(brain, turn, self._from.starts_over)

    # ---------------------------------------------------------------- the steps

    async def prepare(self) -> None:
        """Before anything is started: ask for what the budget of the run that this one goes on from no longer covers.

        Raises:
            ApprovalDenied: a person does not want it to go on.
            JournalError: what lies behind cannot be read.
        """
        if self._from is not None:
            await self._from.prepare()

    async def begin(self, box: Box) -> None:
        """Take the fresh box, and bring it to where the other run left its own, if this one goes on from another.

        Raises:
            BoxFileError: the box did not take a file.
            WorkspaceError: what a file held is not kept any more.
            JournalError: it could not be stored that the run goes on.
        """
        self._box = box
        await self._track("running")
        if self._from is not None:
            await self._from.restore(box)
            self._changes = tuple(map(fields_of, self._from.changes))
            self._plan, left = self._from_checkpoint.plan, len(self._from_checkpoint.pending)
            self._planned_done = len(self._plan) - left
        if self._stores:
            async with self._one_at_a_time:
                await self._store()

    async def before(self, call: ToolCall) -> ToolResult | None:
        """The answer to a call that another run has made already; None for one to carry out.

        Raises:
            ApprovalAborted: a person called the run off.
            JournalError: the run's rows cannot be read.
        """
        if self._from is None:
            return None
        async with self._one_at_a_time:
            await self._read()
            step = self._fold.begun.get(call.id)
        return await self._from.before(step) if step is not None else None

    async def finished(self, call: ToolCall, result: ToolResult) -> None:
        """A step is over: store where the run stands, unless the step has only looked.

        Raises:
            JournalError: it could not be stored, so that the run must end.
        """
        if not self._stores or call.name in self._fold.looks or result.route == EARLIER:
            return
        async with self._one_at_a_time:
            await self._look()
            await self._store()

    def brain_session(self, session: str) -> None:
        """What the brain needs to go on from here, as soon as it says so."""
        self._session = session

    async def ended(self, ending: Ending, changes: Sequence[FileChange] = ()) -> None:
        """The run is over; one that did not end well, or may not pass its verification, can be resumed.

        Args:
            ending: How.
            changes: What was brought out of its box; nothing where that failed.

        Raises:
            JournalError: it could not be stored.
        """
        await self._track(ending.status)
        over = ending.status == "done" and not self._around.order.verify
        if not self._stores or self._box is None or over:
            return
        self._session = ending.brain_session or self._session
        async with self._one_at_a_time:
            await self._read()
            if self._around.changes.through:
                self._collected = len(self._fold.finished)
            elif changes:
                self._keep(changes, len(self._fold.finished))
            await self._store(interrupted=ending.status != "done")

    # ----------------------------------------------------------------- privates

    @property
    def _from_checkpoint(self) -> Checkpoint:
        assert self._around.order.resumes is not None  # noqa: S101 - asked for by a run that goes on only
        return self._around.order.resumes

    async def _keep_plan(self, steps: Sequence[str], done: int) -> None:
        redacted = [self._shown(step) for step in steps]
        self._plan, self._planned_done = tuple(redacted), done
        await self._track("running")
        if not self._stores:
            return
        async with self._one_at_a_time:
            await self._store()

    async def _track(self, status: str) -> None:
        """Tell the memory's server how the task stands; one that does not take it is told of nothing more."""
        push, order = self._around.parts.push_task, self._around.order
        if push is None or not self._active or self._untold:
            return
        facts = {
            "run_id": order.run_id,
            "session_id": order.session_id,
            "project": order.project.name,
            "agent": agent_of(order),
            "task": self._shown(order.task)[:LONGEST_TRACKED],
            "steps": list(self._plan),
            "done": self._planned_done,
            "status": status,
            "at": self._around.parts.clock.now().isoformat(),
        }
        if why := await pushed(push, order.run_id, facts):
            self._untold = True
            self._around.record(Noted, text=f"How the task stands was not told to the memory's server: {why}")

    async def _read(self) -> None:
        """Take what the journal has of this run since the last time."""
        journal, order = self._around.parts.journal, self._around.order
        rows = await asyncio.to_thread(journal.events, run_id=order.run_id, after=self._seq, kinds=KINDS)
        if rows:
            self._seq = rows[-1].seq
            self._fold.add(row.event for row in rows)

    async def _look(self) -> None:
        """What the workspace holds by now; where looking takes long, not after every step."""
        await self._read()
        changes, box = self._around.changes, self._box
        loop = asyncio.get_running_loop()
        if changes.through:
            # Every call's changes are in the project before it counts as finished.
            self._collected = len(self._fold.finished)
            return
        if box is None or loop.time() < self._not_before:
            return
        began, steps = loop.time(), len(self._fold.finished)
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                found = await changes.look(box)
        except JournalError:
            raise
        except (KaguraError, TimeoutError) as error:
            self._not_before = began + SHARE * LOOK_SECONDS
            self._tell_trouble(error.message if isinstance(error, KaguraError) else "it takes too long to look at it")
            return
        took = loop.time() - began
        self._not_before = loop.time() + SHARE * took if took > QUICK_SECONDS else 0.0
        self._keep(found, steps)

    def _keep(self, changes: Sequence[FileChange], steps: int) -> None:
        if len(changes) > MOST_FILES:
            self._tell_trouble(f"it holds {len(changes):,} changed files, and {MOST_FILES:,} can be kept")
            return
        self._collected = steps
        self._changes = tuple(map(fields_of, changes))

    def _tell_trouble(self, why: str) -> None:
        if not self._troubled:
            self._troubled = True
            self._around.record(Noted, text=f"If this run is interrupted, its workspace is not restored whole: {why}")

    async def _store(self, *, interrupted: bool = False) -> None:
        await self._read()
        checkpoint = self._checkpoint()
        told = self._around.recorder.make(
            RunCheckpointed,
            step=checkpoint.step,
            pending=len(checkpoint.pending) if self._plan else None,
            changed_files=len(checkpoint.changes),
            usd=checkpoint.spent_usd,
            interrupted=interrupted,
            digest=await asyncio.to_thread(digest_of, checkpoint),
        )
        await asyncio.to_thread(store, self._around.parts.journal, checkpoint, told)
        self._around.recorder.hand_on(told)

    def _checkpoint(self) -> Checkpoint:
        around, order = self._around, self._around.order
        behind = self._from.past.done if self._from is not None else ()
        account = around.account
        self._budgets = _left(around.membrane) or self._budgets
        return Checkpoint(
            run_id=order.run_id,
            session_id=order.session_id,
            step=len(self._fold.finished),
            at=around.parts.clock.now(),
            task=shorten(self._shown(order.task), LONGEST_TASK),
            done=bounded([*behind, *self._fold.finished]),
            begun=bounded(self._fold.begun.values()),
            pending=self._plan[self._planned_done :],
            plan=self._plan,
            changes=self._changes,
            collected=self._collected,
            budget_usd=account.budget_usd,
            spent_usd=account.known_usd,
            budgets=self._budgets,
            grants=(*around.membrane.grant.net, *map(str, around.membrane.grant.credentials)),
            memories=tuple(dict.fromkeys((*self._inherited_memories(), *around.memory.seen))),
            brain=order.brain.name if order.brain is not None else "",
            brain_session=self._session,
            untrusted=around.memory.untrusted,
            options=options_of(order, sorted(self._fold.looks), plugins=self._fold.plugins),
        )

    def _inherited_memories(self) -> Sequence[str]:
        # What grew from a memory in an earlier run of the line is in this one's steps too.
        return self._from_checkpoint.memories if self._from is not None else ()

    def _shown(self, text: str) -> str:
        return self._around.redacting.text(self._around.membrane.scrubber.scrub(text))


def _left(membrane: Membrane) -> tuple[LeftBudget, ...]:
    return tuple(
        LeftBudget(f"{one.provider}:{one.scope}", one.budget.remaining_seconds, one.budget.renewals_left)
        for one in membrane.left
    )
