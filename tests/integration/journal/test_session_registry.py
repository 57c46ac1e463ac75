from __future__ import annotations

from datetime import timedelta

from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.session_registry import sessions
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

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
