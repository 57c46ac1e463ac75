import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from kagura_kernel.domain.events import MemoriesSeen
from kagura_kernel.journal import views
from kagura_kernel.journal.lost_runs import lose, mark_lost
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.session_registry import sessions
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.clock import FakeClock
from tests.support.sample_run import SampleRun

RUN = SampleRun()
CLOCK = FakeClock(RUN.at.replace(minute=10))


@pytest.fixture
def gone() -> str:
    """The owner of a process that has ended."""
    code = "from kagura_kernel.journal.owner import process_owner; print(process_owner())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_run_whose_process_is_gone_is_finished_as_lost_with_what_it_had_used(journal, gone):
    for event in (RUN.started(owner=gone), *RUN.tool(), RUN.counted()):
        journal.append(event)
    assert mark_lost(journal, CLOCK) == ["run-1"]
    finished = journal.events(kinds=["run.finished"])[0].event
    assert (finished.status, finished.error_code, finished.duration) == ("lost", "ERR_RUN_LOST", 600.0)
    assert (finished.tool_calls, finished.input_tokens, finished.computed_usd) == (1, 100, 0.5)
    assert (finished.brain, finished.model, finished.reported_usd) == ("claude", "m-1", None)
    assert "gone" in finished.error
    (row,) = views.runs(journal)
    assert (row.status, row.error_code) == ("lost", "ERR_RUN_LOST")
    assert journal.verify().rows == journal.last_seq()


@pytest.mark.parametrize("marked", [True, False])
def test_a_lost_run_says_whether_it_had_seen_what_nobody_has_checked(journal, gone, marked):
    about = {"run_id": "run-1", "session_id": "ses-1", "at": RUN.at, "how": "asked"}
    for event in (RUN.started(owner=gone), *(MemoriesSeen(**about, untrusted=one) for one in (marked, False))):
        journal.append(event)
    mark_lost(journal, CLOCK)
    assert [row.untrusted for row in views.runs(journal)] == [marked]


def test_a_run_of_another_machine_is_lost_on_somebody_s_word_once(journal, mailbox):
    for event in (RUN.started(owner="another-host-00000000:1:2.3.4"), RUN.asked("app-1")):
        journal.append(event)
    assert mark_lost(journal, CLOCK) == []
    assert lose(journal, "run-1", "its worker is gone", CLOCK)
    assert not lose(journal, "run-1", "its worker is gone", CLOCK)
    assert not lose(journal, "run-9", "there is none", CLOCK)
    (row,) = views.runs(journal)
    assert (row.status, mailbox.pending()) == ("lost", [])
    assert "its worker is gone" in journal.events(kinds=["run.finished"])[0].event.error
    assert journal.verify().rows == journal.last_seq()


def test_what_a_lost_run_was_asking_is_called_off(journal, mailbox, gone):
    for event in (RUN.started(owner=gone), RUN.asked("app-1"), RUN.asked("app-2"), RUN.decided("app-1")):
        journal.append(event)
    mark_lost(journal, CLOCK)
    assert mailbox.pending() == []
    verdicts = {row.id: (row.verdict, row.via) for row in views.approvals(journal)}
    assert verdicts == {"app-1": ("allow", "cell"), "app-2": ("aborted", "lost")}
    (decided,) = journal.events(kinds=["approval.decided"], after=4)
    assert (decided.event.approval_id, decided.event.waited) == ("app-2", 600.0)


def test_running_and_finished_runs_are_left_alone(journal, gone):
    for event in (
        RUN.started(owner=process_owner()),
        SampleRun("run-2").started(owner=gone),
        SampleRun("run-2").finished(),
        SampleRun("run-3").started(owner="another-host-00000000:1:2.3.4"),
        SampleRun("run-4").started(owner=""),
    ):
        journal.append(event)
    assert mark_lost(journal, CLOCK) == []
    assert [row.status for row in views.runs(journal)] == ["running", "running", "done", "running"]


def test_several_that_mark_at_once_mark_each_run_once(journal, open_journal, gone):
    for number in range(10):
        journal.append(SampleRun(f"run-{number}").started(owner=gone))
    handles = [journal, open_journal(), open_journal()]
    with ThreadPoolExecutor(3) as pool:
        marked = [run for runs in pool.map(lambda handle: mark_lost(handle, CLOCK), handles) for run in runs]
    assert sorted(marked) == [f"run-{number}" for number in range(10)]
    assert len(journal.events(kinds=["run.finished"])) == 10
    assert Mailbox(journal).pending() == []


START = SampleRun().at


def fill(journal: Journal) -> None:
    """Three sessions, whose runs are mixed, and a child of one of them."""
    for number, name in enumerate(["one", "two", "one", "three", "one"]):
        run = SampleRun(f"run-{number}", name, START + timedelta(hours=number))
        journal.append(run.started(task=f"task {number}"))
        if number != 3:
            journal.append(run.finished(status="failed" if number == 1 else "done"))
    journal.append(SampleRun("run-9", "child", START + timedelta(hours=9)).started(lineage=("run-3",)))


def test_a_session_is_what_its_runs_are_and_the_newest_comes_first(journal):
    fill(journal)
    found = [(row.session_id, row.runs, row.last_run, row.state) for row in sessions(journal)]
    assert found == [("one", 3, "run-4", "done"), ("three", 1, "run-3", "running"), ("two", 1, "run-1", "failed")]
    [first, *_] = sessions(journal)
    assert (first.first_at, first.last_at, first.task) == (START, START + timedelta(hours=4), "task 4")


def test_one_that_waits_for_a_person_says_so(journal):
    fill(journal)
    asking = SampleRun("run-3", "three", START)
    journal.append(asking.asked())
    Mailbox(journal).post(asking.request())
    row = next(row for row in sessions(journal) if row.session_id == "three")
    assert (row.state, row.waiting) == ("waiting", 1)


def test_only_those_that_are_named_or_so_many(journal):
    fill(journal)
    assert [row.session_id for row in sessions(journal, limit=2)] == ["one", "three"]
    assert [row.session_id for row in sessions(journal, names=["two", "nobody"])] == ["two"]
    assert sessions(journal, names=["child"]) == []
