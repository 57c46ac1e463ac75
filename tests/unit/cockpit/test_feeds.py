"""A run on the journal as a feed: of this process, of another one, over, or lost."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kagura_kernel.cockpit import feeds
from kagura_kernel.cockpit.resumption import brain_session, continued, left_budget
from kagura_kernel.domain.errors import JournalUnreadable, LeaseElsewhere, LeaseUnknown, RunUnknown
from kagura_kernel.domain.events import Event, LeaseChanged, RunFinished
from kagura_kernel.domain.patterns import Checkpoint
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.credential_fake import FakeProvider
from kagura_kernel.testing.patience import eventually, wait_until
from tests.support.sample_run import SampleRun


@pytest.fixture
def gone() -> str:
    """A process that has ended."""
    code = "from kagura_kernel.journal.owner import process_owner; print(process_owner())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


async def test_a_run_of_another_process_is_told_from_its_first_row_on_and_as_it_goes(cockpit_with, elsewhere):
    run = SampleRun()
    elsewhere.append(run.started(owner=process_owner()))
    feed = cockpit_with().attach("run-1")
    heard: list[Event] = []
    feed.subscribe(heard.append)
    await eventually(lambda: kinds(heard) == ["run.started"])
    assert not feed.done
    elsewhere.append(run.said("Look."))
    elsewhere.append(SampleRun("run-2").started(owner=process_owner()))
    await eventually(lambda: kinds(heard) == ["run.started", "text.written"])
    elsewhere.append(run.finished())
    assert await feed.ended() is None
    assert kinds(heard) == ["run.started", "text.written", "run.finished"]
    assert feed.done


async def test_of_a_run_that_is_over_every_row_is_told_those_after_its_end_too(cockpit_with, elsewhere, monkeypatch):
    monkeypatch.setattr(feeds, "_ROWS_AT_ONCE", 7)
    run = SampleRun()
    told = [run.started(owner="elsewhere"), *(run.said(str(number)) for number in range(20)), run.finished()]
    for event in [*told, run.noted("settled")]:
        elsewhere.append(event)
    feed = cockpit_with().attach("run-1")
    heard: list[Event] = []
    feed.subscribe(heard.append)
    assert await feed.ended() is None
    assert heard == [*told, run.noted("settled")]


async def test_two_feeds_of_one_run_tell_all_of_it_each(cockpit_with, elsewhere):
    run = SampleRun()
    elsewhere.append(run.started(owner=process_owner()))
    cockpit = cockpit_with()
    first: list[Event] = []
    second: list[Event] = []
    one, two = cockpit.attach("run-1"), cockpit.attach("run-1")
    stop = one.subscribe(first.append)
    two.subscribe(second.append)
    await eventually(lambda: first and second)
    stop()
    elsewhere.append(run.finished())
    await two.ended()
    assert kinds(second) == ["run.started", "run.finished"]
    assert kinds(first) == ["run.started"]


async def test_nothing_is_read_once_nobody_listens(cockpit_with, elsewhere, monkeypatch):
    elsewhere.append(SampleRun().started(owner=process_owner()))
    cockpit = cockpit_with()
    looks: list[int] = []
    look = Journal.last_seq

    def counted(journal: Journal) -> int:
        looks.append(1)
        return look(journal)

    monkeypatch.setattr(Journal, "last_seq", counted)
    heard: list[Event] = []
    stop = cockpit.attach("run-1").subscribe(heard.append)
    await eventually(lambda: heard)
    stop()
    await eventually(lambda: not cockpit._tails._reading)
    assert looks
    again: list[Event] = []
    cockpit.attach("run-1").subscribe(again.append)
    await eventually(lambda: again)


async def test_a_run_whose_process_is_gone_is_told_as_lost(cockpit, elsewhere, gone):
    elsewhere.append(SampleRun().started(owner=gone))
    heard: list[Event] = []
    feed = cockpit.attach("run-1")
    feed.subscribe(heard.append)
    assert await feed.ended() is None
    last = heard[-1]
    assert isinstance(last, RunFinished)
    assert (last.status, last.error_code) == ("lost", "ERR_RUN_LOST")


def test_a_process_that_ends_while_somebody_looks_on_makes_its_run_lost(cockpit_with, elsewhere, monkeypatch):
    monkeypatch.setattr(feeds, "OWNER_SECONDS", 0.0)
    code = "from kagura_kernel.journal.owner import process_owner; print(process_owner(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        elsewhere.append(SampleRun().started(owner=process.stdout.readline().strip()))
        heard: list[Event] = []
        feed = cockpit_with().attach("run-1")
        feed.subscribe(heard.append)
        wait_until(lambda: heard)
        process.kill()
        process.wait(60)
        wait_until(lambda: feed.done)
    assert kinds(heard) == ["run.started", "run.finished"]


def test_a_run_that_nobody_knows_is_refused(cockpit_with):
    with pytest.raises(RunUnknown):
        cockpit_with().attach("run-none")


async def test_a_journal_that_cannot_be_read_ends_the_feed_with_the_reason(cockpit_with, elsewhere, monkeypatch):
    elsewhere.append(SampleRun().started(owner=process_owner()))
    feed = cockpit_with().attach("run-1")

    def broken(_: Journal) -> int:
        raise JournalUnreadable("/journal", "its disk is gone")

    monkeypatch.setattr(Journal, "last_seq", broken)
    feed.subscribe(lambda _event: None)
    assert isinstance(await feed.ended(), JournalUnreadable)


async def test_a_run_of_this_process_is_heard_live(cockpit_with, project):
    cockpit = cockpit_with(("Done.",))
    handle = cockpit.launch(RunRequest(task="Look.", brain="fake", project=project))
    feed = cockpit.attach(handle.run_id)
    assert feed is handle
    heard: list[Event] = []
    feed.subscribe(heard.append)
    assert await feed.ended() is None
    assert (heard[0].kind, heard[-1].kind) == ("run.started", "run.finished")
    assert feed.done
    # Over, it is told from the journal: the same facts.
    await eventually(lambda: cockpit.handle(handle.run_id) is None)
    again: list[Event] = []
    past = cockpit.attach(handle.run_id)
    past.subscribe(again.append)
    await past.ended()
    assert past is not handle
    assert kinds(again) == [event.kind for event in heard if event.durable]


def test_a_lease_of_another_process_is_taken_back_from_here_and_extended_only_there(cockpit_with, elsewhere):
    run = SampleRun()
    elsewhere.append(run.started(owner=process_owner()))
    ledger = LeaseLedger(elsewhere)
    now = elsewhere.clock.now()
    row = LeaseRow(
        id="lea-1",
        lease_id="lea-1",
        run_id="run-1",
        session_id="ses-1",
        owner=process_owner(),
        provider="github",
        scope="read",
        began_at=now,
        expires_at=now + timedelta(hours=1),
        dies_at=now + timedelta(hours=1),
        total_seconds=3600.0,
        spent_seconds=0.0,
        renewals_left=1,
    )
    assert ledger.begin(row)
    assert ledger.complete("lea-1", handle="h", expires_at=now + timedelta(hours=1), dies_at=now + timedelta(hours=1))
    cockpit = cockpit_with()
    with pytest.raises(LeaseElsewhere) as refused:
        cockpit.extend_lease("lea-1", by="ann")
    assert "run-1 in another kernel (process" in refused.value.message
    cockpit.revoke_lease("lea-1", by="ann")
    assert not ledger.is_live("lea-1")
    (word,) = Mailbox(elsewhere).take(["run-1"], ("leases",))
    assert word.by == "ann"
    with pytest.raises(LeaseUnknown):
        cockpit.revoke_lease("lea-1", by="ann")


def test_a_lease_that_is_revoked_from_elsewhere_is_given_back_by_the_run_that_holds_it(cockpit_with, project):
    provider = FakeProvider(scopes=frozenset({"read"}))
    injection = EnvInjection(way="env", variables={"TOKEN": "{token}"})
    registry = Registry({"fake": provider}, {"fake": (injection,)})
    settings = Settings(preapproved_grants=("fake:read",))
    holder, elsewhere = (cockpit_with(registry=registry, settings=settings) for _ in range(2))
    code = "until [ -e stop ]; do sleep 0.05; done"
    handle = holder.launch(RunRequest(task=code, language="bash", project=project, grants=("fake:read",)))
    wait_until(lambda: elsewhere.journal.events(run_id=handle.run_id, kinds=("tool.called",)))
    (lease,) = elsewhere.leases()
    assert not lease.here
    elsewhere.revoke_lease(lease.lease_id, by="bob")
    wait_until(lambda: not elsewhere.leases())
    wait_until(lambda: not LeaseLedger(elsewhere.journal).open_rows())
    released = [row.event for row in elsewhere.journal.events(run_id=handle.run_id, kinds=("lease.changed",))][-1]
    assert isinstance(released, LeaseChanged)
    assert (released.change, released.why) == ("released", "revoked by bob")
    handle.kill("ann")
    handle.result(60)


STOOD = Checkpoint(
    run_id="run-1",
    session_id="ses-1",
    step=3,
    at=datetime(2026, 1, 5, tzinfo=UTC),
    task="Mend it.",
    brain="claude",
    brain_session="0a$0.1",
    budget_usd=1.0,
    spent_usd=0.25,
    options={
        "project": "/projects/one",
        "agent": "mender",
        "model": "m-1",
        "box": "docker",
        "image": "mine:1",
        "net": ["pypi"],
        "credentials": ["github:read"],
        "writable_root": True,
        "write_mode": "through",
        "command_timeout": 90.0,
        "max_turns": 9,
        "outputs": ["frame"],
        "verify": "pytest -q",
        "workers": "tcp://10.0.0.5:8786",
        "context": "names",
        "mode": "plan",
    },
)


def test_an_empty_cell_goes_on_as_the_other_run_was():
    assert continued(RunRequest(task="", resume="run-1"), STOOD) == RunRequest(
        task="Mend it.",
        resume="run-1",
        brain="claude",
        agent="mender",
        model="m-1",
        box="docker",
        image="mine:1",
        net=("pypi",),
        grants=("github:read",),
        writable_root=True,
        write_mode=WriteMode.THROUGH,
        command_timeout=90.0,
        max_turns=9,
        outputs=("frame",),
        verify="pytest -q",
        workers="tcp://10.0.0.5:8786",
        context="names",
        mode="plan",
        project=Path("/projects/one"),
    )


def test_what_the_cell_says_counts():
    said = RunRequest(
        task="And be quick.",
        brain="other",
        agent="",
        model="",
        box="bubblewrap",
        net=("none",),
        grants=("aws:read",),
        write_mode=WriteMode.ASK,
        command_timeout=0.0,
        max_turns=1,
        outputs=("other",),
        verify="",
        workers="",
        context="all",
        mode="default",
        project=Path("/projects/two"),
    )
    found = continued(said, STOOD)
    assert found.task == "Mend it.\n\nAnd be quick."
    assert found._replace(task=said.task, writable_root=False) == said
    assert found.image is None


def test_options_that_are_none_of_ours_are_left_out():
    broken = replace(
        STOOD, options={"project": "/p", "net": 5, "model": 3, "write_mode": "odd", "writable_root": "yes"}
    )
    found = continued(RunRequest(task="", resume="run-1"), broken)
    assert (found.net, found.model, found.write_mode, found.writable_root) == ((), None, None, False)


@pytest.mark.parametrize(
    ("given", "limit", "spent", "usual", "left"),
    [
        (None, 1.0, 0.25, 5.0, 0.75),
        (None, 1.0, 1.5, 5.0, 0.0),
        (None, 1.0, None, 5.0, 0.0),
        (None, None, 0.25, 5.0, 5.0),
        (None, None, None, None, None),
        (2.0, 1.0, 0.25, 2.0, 2.0),
    ],
)
def test_its_budget_is_what_the_cell_names_else_what_is_left_else_the_usual(given, limit, spent, usual, left):
    stood = replace(STOOD, budget_usd=limit, spent_usd=spent)
    assert left_budget(usual, RunRequest(task="", budget_usd=given), stood) == left


def test_another_brain_does_not_get_the_conversation():
    assert brain_session(STOOD, "claude") == "0a$0.1"
    assert brain_session(STOOD, "other") == ""
