"""One run's box: a new one, or the one that the session's last run left in place; at the end closed, or left again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from kagura_kernel.domain.errors import JournalError, KaguraError, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.events import BoxClosed, BoxStarted, Noted
from kagura_kernel.domain.policy import HOST, SandboxPolicyType
from kagura_kernel.runs.changes import RunChanges
from kagura_kernel.runs.kept_boxes import KeptBox, Likeness
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.sandbox.backend import Box, BoxSpec, KeepableBox
from kagura_kernel.sandbox.selection import LaunchedBox


class RunBox:
    """Where a run gets its box from, and where it goes; on the run's loop.

    Args:
        order: What was asked for.
        parts: Where boxes come from.
        recorder: Where the run's events go.
    """

    def __init__(self, order: RunOrder, parts: RunParts, recorder: Recorder) -> None:
        self._order, self._parts, self._recorder = order, parts, recorder
        self._keeps = order.keep_seconds > 0 and parts.kept is not None
        self._now: KeptBox | None = None
        self._give_back: Callable[[], None] = lambda: None
        # Why there is no box that a brain's commands could run in; what is open then only carries the run
        self.fallback = ""
        self.box: Box | None = None  # As long as it is the run's
        self._closing: asyncio.Task[None] | None = None

    async def open(self, spec: BoxSpec) -> tuple[Box, KeptBox | None]:
        """Have a box, and what is to be known of the runs before in it; None where there were none.

        Raises:
            SandboxError: none can be had, or none that could stay.
            WorkspaceError: the project cannot be shown to it.
        """
        order, clock, began = self._order, self._parts.clock, self._parts.clock.monotonic()
        likeness = Likeness(order.box, spec, (order.write_mode.value, order.plans_only))
        since = time.time()
        before, instead = await self._before(likeness)
        if before is not None:
            self.box, reason, self._give_back = before.box, before.reason, before.give_back
        else:
            launched = await self._start(spec)
            self.box, reason, self._give_back = launched.box, launched.reason, launched.free
        box = self.box
        await self._recorder.ready_for(reason, *box.notes, instead, self.fallback)
        self._recorder.record(
            BoxStarted,
            box_id=box.id,
            backend=box.backend,
            isolation=box.isolation.label,
            reason=reason,
            image=box.image,
            warm=box.warm,
            ready_ms=(clock.monotonic() - began) * 1000,
            notes=box.notes,
            goes_on=before.run_id if before is not None else "",
            goes_on_count=before.count if before is not None else None,
            stays=self._keeps,
            instead=instead,
            fallback=self.fallback,
        )
        if self._keeps:
            if not isinstance(box, KeepableBox):
                raise SandboxUnsupported(box.backend, "boxes that stay for the next cell, so leave `--keep` out")
            self._now = before or KeptBox(box, reason, likeness, since, give_back=self._give_back)
        return box, before

    async def _start(self, spec: BoxSpec) -> LaunchedBox:
        if self._order.brain is not None and spec.policy.type is SandboxPolicyType.DANGER_FULL:
            # Its tools act on the project itself.
            spec = replace(spec, workspace=None)
        try:
            return await self._parts.start_box(self._order.box, spec)
        except SandboxUnavailable as error:
            if why := self._order.cannot_fall_back:
                raise SandboxUnavailable(error.reason, f"{why} {error.install or ''}".rstrip()) from error
            if not self._order.falls_back:
                raise
            self.fallback, self._keeps = error.reason, False
        # Nothing of a brain's runs here, so that it needs neither the project nor what else its box would have had.
        empty = replace(spec, workspace=None, image=None, extra_read_only=(), shown=())
        return await self._parts.start_box(HOST, empty)

    async def _before(self, likeness: Likeness) -> tuple[KeptBox | None, str]:
        order, kept = self._order, self._parts.kept
        # What a run is to go on from, or is given, is laid into a fresh workspace.
        if not self._keeps or kept is None or order.resumes is not None or order.request.changes:
            return None, ""
        return await kept.take(order.session_id, likeness)

    def begin_close(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Begin to close a box that does not stay, which takes longer than most of what is done without one.

        Args:
            ready: Returns when nothing in the box is needed any more.
        """

        async def end(box: Box) -> None:
            await ready()
            await box.close()

        if self.box is not None and self._now is None:
            self._closing = asyncio.create_task(end(self.box), name=f"close {self.box.id}")

    async def close(
        self, changes: RunChanges, facts: Mapping[str, Any], *, why_not: str, free: Callable[[], None]
    ) -> None:
        """Leave it in place where that was asked for, and close it otherwise.

        Args:
            changes: What was told of its files.
            facts: What else its next run has to know, as `KeptBox` names it.
            why_not: Why it cannot stay, a clause; empty where it can.
            free: Lets go of what it shows of the host; called when it is closed.
        """
        box, self.box = self.box, None
        now = self._now
        if now is not None and not why_not:
            order = self._order
            now = replace(
                now,
                run_id=order.run_id,
                count=order.place.count,
                told=changes.told,
                notebooks=changes.notebooks,
                record=self._recorder.record,
                free=free,
                **facts,
            )
            try:
                assert self._parts.kept is not None, "it stays where boxes can be kept"  # noqa: S101 - for the type checker
                await self._parts.kept.leave(order.session_id, now, order.keep_seconds)
            except KaguraError as error:
                why_not = error.message
            else:
                return
        try:
            if box is not None:
                await (self._closing or box.close())
                with contextlib.suppress(JournalError):
                    if now is not None:
                        self._recorder.record(Noted, text=f"The box does not stay for the next cell: {why_not}")
                    self._recorder.record(BoxClosed, box_id=box.id)
        finally:
            free()
            self._give_back()
