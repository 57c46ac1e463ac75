"""Stop and go on with this: for a run whose brain takes nothing while it works, from the parts that there are."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.resumption import may_be_resumed, planning_mode
from kagura_kernel.domain.errors import RunOver
from kagura_kernel.journal import views
from kagura_kernel.journal.checkpoints import latest
from kagura_kernel.runs.request import RunRequest

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.journal.store import Journal


async def stopped(cockpit: Cockpit, run_id: str, *, by: str) -> None:
    """Stop a run of whatever process, and return when it is over.

    Raises:
        RunUnknown: there is no such run.
        JournalError: the journal cannot be used.
    """
    with suppress(RunOver):
        await asyncio.to_thread(cockpit.kill, run_id, by=by)
    feed = cockpit.attach(run_id)
    # A run of another process is read on behalf of whoever listens.
    stop = feed.subscribe(lambda _event: None)
    try:
        await feed.ended()
    finally:
        stop()


def going_on(journal: Journal, run_id: str, text: str, asked: RunRequest | None = None) -> RunRequest:
    """What goes on in the conversation of a run that is over, with another task.

    Where it is kept how far that run had come, it goes on from there; otherwise its session does.

    Args:
        journal: Where the run is.
        run_id: The run.
        text: The task.
        asked: What was asked for before, where it is known; its cassettes are not played or written on.

    Raises:
        RunUnknown: there is no such run.
    """
    row = views.one_run(journal, run_id)
    request = asked or RunRequest()
    # It plans for as long as that run did, whatever was asked for at its beginning.
    mode = planning_mode(journal, run_id) or (request.mode if request.mode != "plan" else None)
    request = request._replace(
        task=text,
        session=row.session_id,
        new_session=False,
        run_id="",
        replay=None,
        record=None,
        resume=None,
        mode=mode,
    )
    if may_be_resumed(row) and latest(journal, run_id) is not None and not views.gone_on_with(journal, run_id):
        return request._replace(resume=run_id)
    # How much that run was shown of its notebook is not kept; what nobody knows is not shown again.
    return request if asked is not None else request._replace(context="none")
