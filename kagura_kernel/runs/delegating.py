"""Handing parts of a run's work on: children with a memory, a smaller grant and a share of the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import ApprovalAborted, JournalError, KaguraError, MemoryStoreError, UsageError
from kagura_kernel.domain.memory import Author, Draft, Memory, Source
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.patterns import HANDOFF, HANDOFF_KEPT, Handoff
from kagura_kernel.domain.policy import PermissionMode, WriteMode
from kagura_kernel.domain.tools import ToolResult
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.patterns.dispatch import asked_words, below, share_of, why_not
from kagura_kernel.runs.attempts import to_the_end
from kagura_kernel.runs.child_books import ChildBooks
from kagura_kernel.runs.child_changes import TakenOver, take_over, to_lay
from kagura_kernel.runs.child_words import is_good, told
from kagura_kernel.runs.order import ChildOrder, Children
from kagura_kernel.tools.delegate import Delegated, DelegateTool
from kagura_kernel.tools.toolbox import Tool

if TYPE_CHECKING:
    from kagura_kernel.domain.changes import FileChange
    from kagura_kernel.kit.definitions.references import ResolvedAgent
    from kagura_kernel.memory.store import MemoryStore
    from kagura_kernel.runs.stage import Stage

REPLAY = "replay"
"""The brain that plays a cassette."""


def delegation_tools(stage: Stage) -> Sequence[Tool]:
    """The tool `delegate`, for a run that may hand work on."""
    children, order = stage.parts.children, stage.order
    if children is None or order.brain is None:
        return ()
    if why_not(order.delegation, order.handoff.depth, 0):
        return ()
    stage.delegation = delegation = Delegation(stage, children)
    return (DelegateTool(delegation.hand_on, {name: one.definition.description for name, one in _subs(stage)}),)


def _subs(stage: Stage) -> list[tuple[str, ResolvedAgent]]:
    agent = stage.order.agent
    return [] if agent is None else list(agent.agent.agents.items())


class Delegation:
    """What one run hands on; on its loop.

    Args:
        stage: The run.
        children: Runs what is handed on.
    """

    def __init__(self, stage: Stage, children: Children) -> None:
        self._stage = stage
        self._children = children
        self._terms = stage.order.delegation
        self._room = asyncio.Semaphore(self._terms.at_once)
        self._laying = asyncio.Lock()
        self._going: set[asyncio.Task[ToolResult]] = set()
        self._count = 0

    async def hand_on(self, wanted: Delegated, call_id: str) -> ToolResult:
        """Let another run do it, and say what came of it. Cancelling ends that run first.

        Raises:
            UsageError: it may not be handed on like this.
            JournalError: a fact of it could not be stored.
        """
        brain = self._stage.order.brain
        if brain is not None and brain.name == REPLAY:
            # Its words were recorded, and a child would think anew, for money.
            raise UsageError("This run is a replay, and nothing is handed on in it.")
        if why := why_not(self._terms, self._stage.order.handoff.depth, self._count):
            raise UsageError(why)
        handoff = self._handoff(wanted)
        self._count += 1
        session = f"{self._stage.order.run_id}.child-{self._count}"
        task = asyncio.create_task(self._child(wanted, handoff, session, call_id), name=session)
        self._going.add(task)
        try:
            await asyncio.wait({task})
        finally:
            if not task.done():
                await _ended(task)
            self._going.discard(task)
        return task.result()

    async def close(self) -> None:
        """End whatever goes on; may be called twice."""
        for task in list(self._going):
            await _ended(task)

    # ----------------------------------------------------------------- before

    def _handoff(self, wanted: Delegated) -> Handoff:
        """What the child may have, but for its memory and its share."""
        order, stage = self._stage.order, self._stage
        names = [name for name, _ in _subs(stage)]
        if wanted.agent and wanted.agent not in names:
            known = ", ".join(names) or "none"
            raise UsageError(f"There is no sub-agent {wanted.agent!r}. There are: {known}.")
        if wanted.context and self._store is None:
            raise UsageError("There is no memory here to hand a context over in: write what matters into the task.")
        routing, above = order.routing, order.handoff
        return replace(
            asked_words(stage.membrane.grant, wanted.net, wanted.credentials),
            lineage=(*above.lineage, order.run_id),
            # Its changes come back into this run's box, and reach the project on this run's way.
            write_mode=WriteMode.NONE,
            agents=(*above.agents, *filter(None, [wanted.agent])),
            agent_digest=self._digest(wanted.agent) if self._terms.workers else "",
            full_control=routing.mode is PermissionMode.FULL_CONTROL,
            strict=routing.strict,
            preapproved=routing.preapproved,
            delegation=below(self._terms),
        )

    def _digest(self, sub: str) -> str:
        agent = self._stage.order.agent
        if agent is None:
            return ""
        return agent.agent.agents[sub].digest if sub else agent.agent.digest

    @property
    def _store(self) -> MemoryStore | None:
        return self._stage.memory.store if self._stage.memory is not None else None

    async def _hand_over(self, context: str, call_id: str) -> str:
        memory = self._stage.memory
        if not context.strip() or memory is None:
            return ""
        run_id, agent = self._stage.order.run_id, self._stage.order.agent
        draft = Draft(
            text=self._stage.membrane.scrubber.scrub(context),
            source=Source(Author.AGENT, agent.agent.name if agent is not None else "", run_id),
            type=HANDOFF,
            scope=f"run:{run_id}",
            expires_at=self._stage.parts.clock.now() + HANDOFF_KEPT,
        )
        kept = await memory.keep(draft, HANDOFF, call_id=call_id, came_from=tuple(memory.seen))
        return kept.id

    # ----------------------------------------------------------------- during

    async def _child(self, wanted: Delegated, handoff: Handoff, session: str, call_id: str) -> ToolResult:
        account = self._stage.account
        async with self._room:
            share = share_of(account.left_usd, wanted.budget_usd, self._terms.at_once)
            reserved = share or 0.0
            account.handed_usd += reserved
            spent = 0.0
            try:
                one = ChildBooks(self._stage, call_id, share, wanted.agent)
                try:
                    begun = to_lay(await self._stage.changes.so_far(self._stage.box))
                    memory_id = await self._hand_over(wanted.context, call_id)
                    one.memory_id = memory_id
                    handoff = replace(handoff, memory_id=memory_id, budget_usd=share)
                    order = self._order(wanted, handoff, session, begun)
                    outcome = await to_the_end(self._children, order, self._stage.parts.journal, one.started, one.lost)
                    ids = await one.ended(outcome)
                    taken = await self._take_over(begun, outcome)
                except (JournalError, ApprovalAborted):
                    raise
                except KaguraError as error:
                    return ToolResult(f"{error.message} [{error.code}]", is_error=True, route="")
                finally:
                    # Cut off, or failed on the way: nobody knows what it cost, and all of its share counts.
                    one.cut_off()
                    spent = one.spent
                await self._show(ids, call_id)
                return told(outcome, one.usd, ids, taken)
            finally:
                account.handed_usd += spent - reserved

    def _order(self, wanted: Delegated, handoff: Handoff, session: str, begun: tuple[FileChange, ...]) -> ChildOrder:
        order = self._stage.order
        brain, model = self._brain(wanted.agent)
        return ChildOrder(
            task=wanted.task,
            handoff=handoff,
            parent=order.run_id,
            session_id=session,
            project=order.project,
            agent=order.agent.reference if order.agent is not None else "",
            brain=brain,
            model=model,
            verify=wanted.verify,
            workers=self._terms.workers,
            box=order.box,
            image=order.grant.image if order.spec.image_required else "",
            headless=order.headless,
            origin=order.origin,
            place=order.place,
            changes=begun,
        )

    def _brain(self, sub: str) -> tuple[str, str]:
        """Brain and model of a child: its definition's where that names them, otherwise its parent's."""
        order = self._stage.order
        wanted = order.agent.agent.agents[sub].definition if sub and order.agent is not None else None
        brain = "" if wanted is not None and wanted.brain else order.brain.name if order.brain is not None else ""
        model = "" if wanted is not None and (wanted.model or wanted.brain) else order.model
        return brain, model

    # ------------------------------------------------------------------ after

    async def _take_over(self, begun: Sequence[FileChange], outcome: RunOutcome) -> TakenOver:
        # A child that tells of no file has none, or they could not be brought out of its box: nothing is undone then.
        if not is_good(outcome) or not outcome.changes:
            return TakenOver()
        stage = self._stage
        # One child after the other: what the first one brings is what the second one's changes are held against.
        async with self._laying:
            now = await stage.changes.so_far(stage.box)
            files = ProjectFiles(stage.order.project)
            return await take_over(stage.box, now, begun, outcome.changes, files, stage.parts.blobs)

    async def _show(self, ids: Sequence[str], call_id: str) -> None:
        """Note that the brain is about to read what the child says: an agent's words, which nobody has promoted."""
        memory, store = self._stage.memory, self._store
        if memory is None:
            return
        memory.untrusted = True
        memory.admit(ids)
        if store is not None and ids:
            try:
                found: list[Memory] = [await asyncio.to_thread(store.reference, ids[0])]
            except MemoryStoreError:
                return
            await memory.see(HANDOFF, found, call_id=call_id)


async def _ended(task: asyncio.Task[ToolResult]) -> None:
    """Cancel, and wait until it is over even when the waiting is cancelled once more."""
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
