"""The warm pool: which box a start gets, and that nothing is left over."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable, WorkspaceUnreadable
from kagura_kernel.domain.policy import BoxLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec, Probe, ShownPath
from kagura_kernel.sandbox.pool import WarmPool
from tests.support.backends import IdleBackend

SPEC = BoxSpec(workspace=Path("/project"))


@pytest.fixture
async def made():
    """Makes a pool over an idle back-end, with boxes parked for a spec unless that is None; closed at the end."""
    pools: list[WarmPool] = []

    async def make(spec: BoxSpec | None = SPEC, backend: IdleBackend | None = None, **more) -> tuple:
        backend = backend or IdleBackend()
        pools.append(WarmPool(backend, **more))
        if spec is not None:
            pools[-1].prepare(spec)
            await pools[-1].settled()
        return backend, pools[-1]

    yield make
    for pool in pools:
        await pool.close()


async def test_the_first_start_is_cold_and_the_second_one_warm(made):
    backend, pool = await made(None)
    first = await pool.start(SPEC)
    await pool.settled()
    second = await pool.start(SPEC)
    assert (first.warm, second.warm) == (False, True)
    assert backend.started == 1


async def test_a_parked_box_has_no_workspace_until_it_is_taken(made):
    backend, pool = await made()
    assert backend.parked[0].box.spec.workspace is None
    box = await pool.start(SPEC)
    assert box is backend.parked[0].box
    assert backend.parked[0].box.spec.workspace == Path("/project")


async def test_another_project_may_have_the_box_and_another_limit_may_not(made):
    _, pool = await made()
    other_limits = await pool.start(replace(SPEC, limits=BoxLimits(processes=7)))
    other_project = await pool.start(replace(SPEC, workspace=Path("/elsewhere")))
    assert (other_limits.warm, other_project.warm) == (False, True)


async def test_specs_that_differ_in_their_variables_alone_share_nothing(made):
    _, pool = await made(replace(SPEC, env={"A": "1"}))
    assert not (await pool.start(replace(SPEC, env={"A": "2"}))).warm
    assert (await pool.start(replace(SPEC, env={"A": "1"}))).warm


async def test_size_nought_switches_the_pool_off(made):
    backend, pool = await made(None, size=0)
    pool.prepare(SPEC)
    assert not (await pool.start(SPEC)).warm
    assert not (await pool.start(SPEC)).warm
    await pool.settled()
    assert backend.parked == []


async def test_a_spec_that_cannot_be_parked_is_passed_through(made):
    backend, pool = await made(None)
    spec = replace(SPEC, shown=(ShownPath(Path("/data"), "/data"),))
    assert not (await pool.start(spec)).warm
    await pool.settled()
    assert backend.parked == []


async def test_boxes_that_show_the_same_directories_share_parked_ones_and_others_do_not(made):
    _, pool = await made(None)
    spec = replace(SPEC, extra_read_only=((Path("/versions/1"), "/kit"),))
    pool.prepare(spec)
    await pool.settled()
    assert not (await pool.start(replace(spec, extra_read_only=((Path("/versions/2"), "/kit"),)))).warm
    assert not (await pool.start(SPEC)).warm
    assert (await pool.start(replace(spec, extra_read_only=((Path("/versions/1"), "/kit"),)))).warm


async def test_a_parked_box_that_died_is_passed_over(made):
    backend, pool = await made(size=2)
    backend.parked[0].box.die()
    assert await pool.start(SPEC) is backend.parked[1].box


async def test_a_box_that_dies_while_it_is_taken_is_replaced_by_a_cold_one(made):
    backend, pool = await made()
    backend.fail_takes = True
    box = await pool.start(SPEC)
    assert not box.warm
    assert backend.parked[0].box.closed


async def test_a_project_that_cannot_be_shown_is_told_and_not_tried_twice(made):
    backend, pool = await made()
    backend.take_error = WorkspaceUnreadable("/project", "it is gone")
    with pytest.raises(WorkspaceUnreadable):
        await pool.start(SPEC)
    assert backend.started == 0
    assert backend.open == set()


async def test_an_old_box_is_closed_and_not_replaced(made):
    backend, pool = await made(max_age=0.01)
    async with asyncio.timeout(60):
        await backend.parked[0].box.wait_closed()
    await pool.settled()
    assert pool.waiting == 0
    assert backend.open == set()
    assert len(backend.parked) == 1


async def test_the_spec_used_longest_ago_loses_its_boxes(made):
    backend, pool = await made(None, max_specs=2)
    specs = [replace(SPEC, image=name) for name in ("a", "b", "c")]
    for spec in specs:
        pool.prepare(spec)
        await pool.settled()
    assert pool.waiting == 2
    assert [parked.box.closed for parked in backend.parked] == [True, False, False]


async def test_many_starts_at_once_never_share_a_box(made):
    _, pool = await made(size=3)
    boxes = await asyncio.gather(*(pool.start(SPEC) for _ in range(20)))
    assert len({box.id for box in boxes}) == 20
    assert sum(box.warm for box in boxes) == 3
    await pool.settled()
    assert pool.waiting == 3


async def test_the_pool_never_holds_more_than_its_size(made):
    backend, pool = await made(None, size=2)
    backend.gate = asyncio.Event()
    for _ in range(5):
        pool.prepare(SPEC)
    backend.gate.set()
    await pool.settled()
    assert len(backend.parked) == pool.waiting == 2


async def test_a_pool_that_cannot_be_filled_is_silent_and_the_next_start_tells(made):
    backend, pool = await made(None)
    backend.fail_starts = True
    pool.prepare(SPEC)
    await pool.settled()
    with pytest.raises(SandboxUnavailable, match="told to fail"):
        await pool.start(SPEC)
    backend.fail_starts = False
    pool.prepare(SPEC)
    await pool.settled()
    assert pool.waiting == 1


async def test_closing_leaves_nothing_parked_nor_on_its_way(made):
    backend, pool = await made(size=2)
    backend.gate = asyncio.Event()
    taken = [backend.parked.pop(0)]
    pool.prepare(replace(SPEC, image="other"))
    await asyncio.sleep(0)
    await pool.close()
    assert all(parked.box.closed for parked in [*taken, *backend.parked])
    assert backend.closed
    assert pool.waiting == 0


async def test_cancelling_a_start_that_takes_a_parked_box_closes_that_box(made):
    backend, pool = await made()
    backend.gate = asyncio.Event()
    start = asyncio.create_task(pool.start(SPEC))
    await asyncio.sleep(0.01)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert backend.open == set()


async def test_after_closing_starts_are_the_back_ends_own_affair(made):
    backend, pool = await made(None)
    await pool.close()
    box = await pool.start(SPEC)
    assert not box.warm
    await pool.settled()
    assert backend.parked == []


async def test_name_walls_and_probe_are_those_of_the_back_end(made):
    backend, pool = await made(None, IdleBackend("docker"))
    assert (pool.name, pool.isolation) == (backend.name, backend.isolation)
    assert await pool.probe("an-image") is backend.answer
    assert backend.probed == ["an-image"]


class Proving(IdleBackend):
    """One whose first box is its trial."""

    async def try_out(self, spec: BoxSpec) -> tuple[Probe, Box | None]:
        if not self.answer.ok:
            return self.answer, None
        return self.answer, await self.start(spec)


async def test_the_box_that_is_wanted_is_the_trial_and_others_wait_behind_it(made):
    backend, pool = await made(None, Proving())
    probe, box = await pool.try_out(SPEC)
    assert (probe.ok, box is not None, backend.probed) == (True, True, [])
    await pool.settled()
    assert pool.waiting == 1


async def test_nothing_is_tried_out_where_a_box_waits_or_the_back_end_cannot(made):
    spec = replace(SPEC, image="my/image")
    for backend in (Proving(), IdleBackend()):
        _, pool = await made(spec if isinstance(backend, Proving) else None, backend)
        probe, box = await pool.try_out(spec)
        assert (probe.ok, box, backend.started) == (True, None, 0)
        assert backend.probed == ["my/image"]


async def test_no_box_waits_behind_a_trial_that_failed(made):
    _, pool = await made(None, Proving(probe=Probe(ok=False, reason="nothing works")))
    probe, box = await pool.try_out(SPEC)
    assert (probe.reason, box, pool.waiting) == ("nothing works", None, 0)
