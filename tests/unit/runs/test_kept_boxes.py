"""Boxes that wait for the next run of their session: how long, and for which."""

from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.events import BoxClosed, BoxKept
from kagura_kernel.domain.policy import SandboxPolicy
from kagura_kernel.runs.kept_boxes import KeptBox, KeptBoxes, Likeness
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually

SPEC = BoxSpec(Path("/project"))
LIKE = Likeness("auto", SPEC, ("ask", False))


@pytest.fixture
async def backend():
    backend = FakeBackend()
    yield backend
    await backend.close()


@pytest.fixture
async def kept(backend):
    """A box that waits in the session `s` for 15 minutes, with its clock, its place, and what was recorded."""
    clock, told = FakeClock(), []
    boxes = KeptBoxes(clock)
    box = await backend.start(BoxSpec())
    one = KeptBox(box, "", LIKE, 0.0, "run-1", 5, record=lambda kind, **fields: told.append((kind, fields)))
    await boxes.leave("s", one, 900.0)
    await clock.until_sleeping()
    yield one, clock, boxes, told
    await boxes.close()


async def test_it_waits_for_its_time_and_no_longer_and_the_next_run_is_told(kept):
    one, clock, boxes, told = kept
    await clock.advance(899)
    assert not one.box.channel.closed
    await clock.advance(1)
    await eventually(lambda: len(told) == 2)
    assert one.box.channel.closed
    why = "no cell went on with it for 15 minutes"
    assert told == [
        (BoxKept, {"box_id": one.box.id, "seconds": 900.0}),
        (BoxClosed, {"box_id": one.box.id, "why": why}),
    ]
    assert await boxes.take("s", LIKE) == (None, f"that of [5] is gone: {why}")
    assert await boxes.take("s", LIKE) == (None, "")


async def test_a_run_that_takes_it_has_it_for_itself(kept):
    one, clock, boxes, _ = kept
    assert await boxes.take("other", LIKE) == (None, "")
    assert await boxes.take("s", LIKE) == (one, "")
    assert await boxes.take("s", LIKE) == (None, "")
    await clock.advance(3600)
    assert not one.box.channel.closed
    await one.box.close()


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (LIKE, ""),
        (replace(LIKE, box="fake"), ""),
        (replace(LIKE, box="docker"), "another `--box`"),
        (replace(LIKE, spec=replace(SPEC, image="other")), "another image"),
        (replace(LIKE, spec=replace(SPEC, workspace=Path("/other"))), "another project"),
        (replace(LIKE, spec=replace(SPEC, extra_read_only=((Path("/kit"), "/kit"),))), "other directories"),
        (replace(LIKE, spec=replace(SPEC, writable_root=True)), "another `--writable-root`"),
        (replace(LIKE, spec=replace(SPEC, policy=SandboxPolicy(network_access=True))), "other terms of the box"),
        (replace(LIKE, spec=replace(SPEC, env={"A": "b"})), "other terms of the box"),
        (replace(LIKE, writes=("through", False)), "another `--write` or `--mode`"),
        (replace(LIKE, writes=("ask", True)), "another `--write` or `--mode`"),
    ],
)
def test_only_a_run_that_asks_for_the_same_goes_on_in_it(wanted, why):
    assert LIKE.unlike(wanted, "fake") == why


async def test_one_waits_for_a_session(kept, backend):
    """A resumed run has a fresh box, whatever waits."""
    one, _, boxes, _ = kept
    other = replace(one, box=await backend.start(BoxSpec()))
    await boxes.leave("s", other, 900.0)
    assert one.box.channel.closed
    assert list(boxes.waiting.values()) == [other]


async def test_one_that_does_not_fit_is_ended(kept):
    one, _, boxes, told = kept
    taken = await boxes.take("s", replace(LIKE, box="docker"))
    assert taken == (None, "another `--box` than in [5]")
    assert one.box.channel.closed
    assert told[-1] == (BoxClosed, {"box_id": one.box.id, "why": "another `--box` than in [5]"})
