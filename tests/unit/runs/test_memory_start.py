"""What a run starts with: trusted, fitting, once each, and no more than there is room for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import MemoryUnknown
from kagura_kernel.domain.memory import LESSON, Author, Draft, Source, Tier
from kagura_kernel.domain.patterns import Checkpoint, Handoff
from kagura_kernel.journal.session_registry import LastRun
from kagura_kernel.runs.memory_start import memory_in, start_of
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.memory import FakeMemory

PERSON = Source(Author.HUMAN, "mori")
SCOPES = ("", "project:p", "session:ses-1")
LAST = LastRun("run-0", "failed", datetime(2026, 3, 1, tzinfo=UTC), 2, verified=False, outcome="mem-last", pending=1)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def memory(clock):
    return FakeMemory(clock=clock)


@pytest.fixture
def start(memory, clock):
    def begun(task="Deploy the service to staging.", last=None, **more):
        order = RunOrder("run-1", "ses-1", task, Path("/p"), BoxSpec(), **more)
        return start_of(memory, order, SCOPES, clock.now(), lambda one: one, last)

    return begun


def keep(memory, text, **more):
    return memory.remember(Draft(text, PERSON, **{"tier": Tier.TRUSTED, **more}))


def ids(start):
    return {how: [memory_in(one).id for one in found] for how, found in start.shown.items()}


def test_a_memory_is_shown_once_however_often_it_fits(memory, start):
    one = keep(memory, "Deploy the service to staging at night.", pinned=True)
    assert ids(start()) == {"pinned": [one.id]}


def test_lessons_are_left_to_the_plan(memory, start):
    keep(memory, "Deploy the service to staging: it failed without a database.", type=LESSON)
    assert ids(start()) == {}


def test_a_run_that_goes_on_from_another_one_starts_with_what_fitted_that(memory, start, clock):
    one = keep(memory, "Deploy the service to staging at night.")
    before = Checkpoint("run-0", "ses-0", 3, clock.now(), "Deploy the service to staging.")
    assert ids(start("", resumes=before)) == {"recalled": [one.id]}
    assert ids(start("")) == {}


async def test_what_was_handed_on_and_has_expired_is_gone(memory, start, clock):
    one = keep(memory, "Look here.", scope="run:run-0", expires_at=clock.now() + timedelta(hours=1))
    assert ids(start(handoff=Handoff(one.id))) == {"handoff": [one.id]}
    await clock.advance(3_601)
    with pytest.raises(MemoryUnknown):
        start(handoff=Handoff(one.id))


def test_a_session_goes_on_from_a_trusted_summary(memory, start, clock):
    keep(memory, "Task: deploy. It failed.", id="mem-last")
    begun = start("Something else.", LAST)
    assert ids(begun) == {"state": ["mem-last"]}
    assert "in quarantine" not in begun.briefing(clock.now())


@pytest.mark.parametrize("tier", [Tier.QUARANTINE, None])
def test_of_any_other_summary_the_facts_alone_are_told(memory, start, clock, tier):
    if tier is not None:
        keep(memory, "Task: deploy. It failed.", id="mem-last", tier=tier)
    begun = start("Something else.", LAST)
    told = begun.briefing(clock.now())
    assert ids(begun) == {}
    assert "The last run of this session ended as failed" in told
    assert "changed 2 files, its verification failed, it had 1 step of its plan left." in told
    assert ("mem-last, in quarantine" in told) is (tier is not None)
    assert "It failed" not in told


def test_nothing_is_said_where_there_is_nothing(start, clock):
    assert start().briefing(clock.now()) == ""


def test_secrets_are_taken_out_before_anything_is_weighed_or_shown(memory, clock):
    keep(memory, "Deploy the service with hunter2.", pinned=True)
    order = RunOrder("run-1", "ses-1", "Begin.", Path("/p"), BoxSpec())
    begun = start_of(
        memory, order, SCOPES, clock.now(), lambda one: replace(one, text=one.text.replace("hunter2", "…"))
    )
    assert "hunter2" not in begun.briefing(clock.now())
