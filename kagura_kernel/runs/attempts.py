"""A part of the work to its end: where its worker is lost on the way, once more, if nothing can happen twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from kagura_kernel.domain.identity import new_run_id
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.journal.store import Journal
from kagura_kernel.patterns.dispatch import why_not_again
from kagura_kernel.runs.order import ChildOrder, Children


async def to_the_end(
    children: Children,
    order: ChildOrder,
    journal: Journal,
    started: Callable[[str, str], None],
    lost: Callable[[RunOutcome, str], None] = lambda _outcome, _again: None,
) -> RunOutcome:
    """Run a child; `lost` is told of an attempt whose worker is gone, and of the run that does it once more.

    Raises:
        KaguraError: it could not be started.
    """
    outcome = await children.run(order, started)
    if outcome.status != "lost":
        return outcome
    rows = await asyncio.to_thread(journal.events, run_id=outcome.run_id)
    why = why_not_again((row.event for row in rows), full_control=order.handoff.full_control)
    if why:
        return replace(outcome, error=f"{outcome.error} It was not begun once more, for {why}.")
    again = new_run_id()
    lost(outcome, again)
    return await children.run(replace(order, handoff=replace(order.handoff, run_id=again)), started)
