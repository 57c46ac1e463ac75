"""Which runs are like a task: words in common, from the ledger, of the same project and model first."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kagura_kernel.domain.events import RunFinished, RunStarted
from kagura_kernel.domain.memory import OUTCOME, Author, Draft, Source
from kagura_kernel.journal.store import Journal
from kagura_kernel.patterns.lessons import ENOUGH, LEAST_LIKENESS, MOST_SIMILAR, Sought, choose, likeness, similar_runs
from kagura_kernel.testing.memory import FakeMemory

DEPLOY = Sought("Deploy the billing service to staging", "fake", "/p")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Deploy the service to staging", "deploy the billing service to staging"),
        ("Fix the failing test in parser.py", "Fix a failing test in lexer.py"),
        ("go on", "Go  on"),
        ("Prüfe die Rechnungen vom März", "Prüfe alle Rechnungen vom April"),
        ("請求書を集計してください", "三月の請求書を集計する"),
    ],
)
def test_tasks_with_enough_words_in_common_are_alike(one, other):
    assert likeness(one, other) >= LEAST_LIKENESS
    assert likeness(one, other) == pytest.approx(likeness(other, one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Write a haiku about the sea", "Write a report about the sales of March"),
        ("Deploy", "Deploy the shop to production and then write the release notes"),
        ("fix it", "fix the parser"),
        ("", "anything at all"),
    ],
)
def test_tasks_that_share_a_word_or_none_are_not(one, other):
    assert likeness(one, other) < LEAST_LIKENESS


def test_the_likest_come_first_and_then_the_newest(past):
    rows = [
        past("Deploy the billing service to staging"),
        past("Deploy the search service to staging"),
        past("Deploy the billing service to staging"),
        past("Water the plants"),
    ]
    assert [row.run_id for row in choose(DEPLOY, rows)] == ["run-3", "run-1", "run-2"]


def test_where_some_fit_very_well_what_fits_less_is_left_out(past):
    rows = [past(DEPLOY.task), past("Deploy the service to Mars and stay")]
    assert [row.run_id for row in choose(DEPLOY, rows)] == ["run-1"]


def test_a_run_that_never_began_hides_none_that_did(past):
    began, denied = past("Deploy the service to Mars and stay"), past(DEPLOY.task, "denied", seconds=0.1, usd=None)
    assert began in choose(DEPLOY, [began, denied])


def test_runs_of_other_projects_count_until_there_are_enough_of_this_one(past):
    rows = [past(DEPLOY.task, project="/other"), *(past(DEPLOY.task) for _ in range(ENOUGH - 1))]
    assert len(choose(DEPLOY, rows)) == ENOUGH
    rows.append(past(DEPLOY.task))
    assert {row.project for row in choose(DEPLOY, rows)} == {"/p"}


def test_a_model_that_was_asked_for_is_compared_with_itself_where_it_can_be(past):
    rows = [past(DEPLOY.task, model="small"), *(past(DEPLOY.task, model="large") for _ in range(ENOUGH))]
    assert len(choose(DEPLOY, rows)) == ENOUGH + 1
    chosen = choose(Sought(DEPLOY.task, "fake", "/p", model="large"), rows)
    assert {row.model for row in chosen} == {"large"}


def test_no_more_than_so_many_are_chosen(past):
    assert len(choose(DEPLOY, [past(DEPLOY.task) for _ in range(MOST_SIMILAR + 5)])) == MOST_SIMILAR


class Books:
    """A ledger and a memory of runs, the first the oldest."""

    def __init__(self, root: Path, tasks: Sequence[str]) -> None:
        self.journal = Journal.open(root)
        self.store = FakeMemory()
        for number, task in enumerate(tasks):
            base = {"run_id": f"run-{number}", "session_id": "ses-1", "at": datetime(2026, 1, 1, tzinfo=UTC)}
            self.journal.append(RunStarted(**base, task=task, brain="fake", project="/p", user="ada"))
            self.journal.append(RunFinished(**base, status="done", brain="fake", duration=1.0))

    def remember(self, text: str, run_id: str) -> None:
        self.store.remember(Draft(text, Source(Author.AGENT, run_id=run_id), type=OUTCOME))

    def similar(self, store: FakeMemory | None) -> list[str]:
        return [row.run_id for row in similar_runs(self.journal, store, DEPLOY)]


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Books]:
    monkeypatch.setattr("kagura_kernel.patterns.lessons._NEWEST", 2)
    made = Books(tmp_path, [DEPLOY.task, "Water the plants", "Feed the cat", "Wind the clock"])
    yield made
    made.journal.close()


def test_a_memory_leads_to_a_run_of_long_ago(books):
    assert books.similar(books.store) == []
    books.remember("We deployed the billing service to staging.", "run-0")
    assert books.similar(books.store) == ["run-0"]
    assert books.similar(None) == []


def test_a_memory_that_leads_elsewhere_leads_nowhere(books):
    books.remember(f"{DEPLOY.task}: it cost nothing at all.", "run-1")
    books.remember(DEPLOY.task, "run-that-never-was")
    books.remember(DEPLOY.task, "")
    assert books.similar(books.store) == []


@pytest.mark.parametrize("enough", [1, ENOUGH])
def test_what_a_similar_run_needed_holds_what_its_children_cost(tmp_path, enough):
    books = Books(tmp_path, [DEPLOY.task] * enough)
    for run_id, usd, above in (("run-9", 0.5, ()), ("run-10", 0.25, ("run-9",))):
        base = {"run_id": run_id, "session_id": "ses-1", "at": datetime(2026, 1, 1, tzinfo=UTC)}
        started = RunStarted(**base, task=DEPLOY.task, brain="fake", project="/p", user="ada", lineage=above)
        books.journal.append(started)
        books.journal.append(RunFinished(**base, status="done", brain="fake", duration=1.0, computed_usd=usd))
    found = {row.run_id: row.usd for row in similar_runs(books.journal, None, DEPLOY)}
    books.journal.close()
    assert found["run-9"] == 0.75
    assert "run-10" not in found
