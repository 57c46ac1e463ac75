"""What a run is expected to need, looked up in a long ledger and a full memory before anything begins."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import quantiles
from time import perf_counter
from typing import Any

from sqlalchemy import insert

from kagura_kernel.domain.events import RunStarted
from kagura_kernel.domain.memory import OUTCOME, Author, Draft, Source
from kagura_kernel.journal import schema
from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.projection import blank_run
from kagura_kernel.journal.store import Journal
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.patterns.lessons import Failure, Sought, lesson_draft, lessons_for, similar_runs
from kagura_kernel.patterns.plans import estimate_of
from tests.bench.harness import Bench, Bound, Line, milliseconds

RUNS = 10_000
LESSONS = 1_000
PROJECTS = 5

_PLANS = 100
_BRAIN = "fake"
_SCOPES = ("", "project:0")
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


async def run_planned(bench: Bench) -> list[Line]:
    """Its similar runs, its lessons and its estimate, for tasks that are known and for those that nobody has seen."""
    return await asyncio.to_thread(_measured, bench.folder / "planning")


def _measured(folder: Path) -> list[Line]:
    random = Random(7)
    words = ["".join(random.choices("abcdefghijklmnoprstuvwz", k=random.randrange(3, 10))) for _ in range(3_000)]
    often = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))

    def task() -> str:
        return " ".join(random.choices(words, cum_weights=often, k=random.randrange(6, 30)))

    tasks = [task() for _ in range(RUNS)]
    journal, store = Journal.open(folder / "books"), SqliteMemory(folder / "memory.db")
    with journal.writing() as writing:
        for start in range(0, RUNS, 500):
            rows = [_row(number, tasks[number]) for number in range(start, start + 500)]
            writing.connection.execute(insert(schema.runs), rows)
    store.remember_many(_outcome(number, told) for number, told in enumerate(tasks))
    store.remember_many(_lesson(number, tasks[number]) for number in range(LESSONS))
    lines: list[Line] = []
    for what, asked in (("a task like many", [*tasks[-_PLANS:]]), ("a new task", [task() for _ in range(_PLANS)])):
        parts = quantiles([_planned(journal, store, one) for one in asked], n=20)
        for name, place in (("p50", 9), ("p95", 18)):
            label = f"plan of {what} among {RUNS:,} runs and {RUNS + LESSONS:,} memories, {name}"
            lines.append(Line(label, figure=milliseconds(parts[place]), bound=Bound("≤ 30 ms", 30), samples=len(asked)))
    store.close()
    journal.close()
    return lines


def _planned(journal: Journal, store: SqliteMemory, task: str) -> float:
    began = perf_counter()
    similar = similar_runs(journal, store, Sought(task, _BRAIN, "/project/0", scopes=_SCOPES))
    lessons_for(store, task, _SCOPES)
    estimate_of(similar)
    return perf_counter() - began


def _row(number: int, task: str) -> dict[str, Any]:
    at = _BEGIN + timedelta(minutes=number)
    event = RunStarted(run_id=f"run-{number}", session_id="ses-1", at=at, task=task, brain=_BRAIN, project="", user="")
    known = {"task": task, "brain": _BRAIN, "project": f"/project/{number % PROJECTS}", "started_at": stamp(at)}
    return blank_run(number + 1, event) | known | {"status": "done", "duration": 60.0, "computed_usd": 0.1}


def _outcome(number: int, task: str) -> Draft:
    source = Source(Author.ENGINE, run_id=f"run-{number}")
    text = f"Task: {task}\nIt ended as done after 60 s, for $0.1000."
    return Draft(text, source, type=OUTCOME, scope=f"project:{number % PROJECTS}")


def _lesson(number: int, task: str) -> Draft:
    failure = Failure("command", f"`./step-{number}.sh` ended with 1", "no room", "", "bash", f"./step-{number}.sh")
    source = Source(Author.ENGINE, run_id=f"run-{number}")
    return lesson_draft(failure, task=task, scope=f"project:{number % PROJECTS}", source=source)
