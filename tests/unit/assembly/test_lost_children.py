"""A child whose worker is gone, where no other is left to do it once more."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kagura_kernel.assembly.dask_children import _Places
from kagura_kernel.domain.errors import RunLost, WorkersUnavailable
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.patterns import Handoff
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.delegation import to_the_end
from kagura_kernel.runs.order import ChildOrder

ORDER = ChildOrder("do it", Handoff(lineage=("run-1",)), "run-1", "ses-1", Path("/p"), workers="tcp://dask:8786")


class Emptied:
    """Workers of which the only one is killed, and the scheduler then has none."""

    async def nthreads(self) -> dict[str, int]:
        return {}

    async def run(self, order: ChildOrder, started: Callable[[str, str], None]) -> RunOutcome:
        del started
        if not order.handoff.run_id:
            return RunOutcome("run-2", "ses-1", "lost", error=RunLost("run-2", "its worker (box:7:1) is gone").message)
        await _Places().of(self, order)
        raise AssertionError("it went somewhere")


def test_its_parent_is_told_that_it_was_lost_and_that_nobody_is_left(tmp_path):
    journal = Journal.open(tmp_path)
    try:
        with pytest.raises(WorkersUnavailable) as caught:
            asyncio.run(to_the_end(Emptied(), ORDER, journal, lambda *_: None))
    finally:
        journal.close()
    assert caught.value.message == (
        "The workers at tcp://dask:8786 cannot be used: the scheduler there has no worker any more. "
        "It was to be done once more, for run-2 was lost: its worker (box:7:1) is gone."
    )
