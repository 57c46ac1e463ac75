"""What is counted anew in memory is what the database has counted, whatever happened in whatever order."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st
from sqlalchemy import text

from kagura_kernel.domain.events import BoxStarted, ChangesCollected, Event
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal
from tests.support.effort import examples
from tests.support.sample_run import SampleRun

RUNS = [SampleRun("run-1"), SampleRun("run-2")]
APPROVALS = st.sampled_from(["app-1", "app-2"])
WORDS = st.text(max_size=4)
PRICES = st.none() | st.floats(0, 10)
STATUSES = st.sampled_from(["done", "failed", "killed", "lost"])


@st.composite
def events(draw: st.DrawFn) -> Event:  # noqa: PLR0911 - one line for each kind
    run = draw(st.sampled_from(RUNS))
    base = {"run_id": run.run_id, "session_id": run.session_id, "at": run.at}
    match draw(st.integers(0, 8)):
        case 0:
            return run.started(task=draw(WORDS), model=draw(WORDS), owner=draw(st.sampled_from(["", "host:1:2"])))
        case 1:
            return BoxStarted(**base, box_id="b", backend="docker", isolation="container", reason="")
        case 2:
            return ChangesCollected(**base, changes=(FileChange(path="a", status="added"),) * draw(st.integers(0, 2)))
        case 3:
            return run.tool()[draw(st.integers(0, 1))]
        case 4 | 5:
            return run.counted(computed_usd=draw(PRICES), model=draw(WORDS), output_tokens=draw(st.integers(0, 9)))
        case 6:
            return run.asked(draw(APPROVALS), title=draw(WORDS))
        case 7:
            return run.decided(draw(APPROVALS), verdict=draw(st.sampled_from(["allow", "deny"])), answer=draw(WORDS))
    return run.finished(status=draw(STATUSES), brain=draw(WORDS), model=draw(WORDS), computed_usd=draw(PRICES))


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    directory: Path = tmp_path_factory.mktemp("journal")
    made = Journal.open(directory)
    yield made
    made.close()


@examples(30, 150, "kagura_kernel/journal/")
@example(told=[RUNS[0].decided("app-2"), RUNS[0].asked("app-2"), RUNS[1].decided("app-2")])
@given(told=st.lists(events(), max_size=14))
def test_the_recount_agrees_with_the_tables(journal, told):
    with journal.writing() as writing:
        for table in ("events", "runs", "approvals"):
            writing.connection.execute(text(f"DELETE FROM journal_{table}"))
        writing.connection.execute(text("UPDATE journal_head SET rows = 0, last_hash = :first"), {"first": "0" * 64})
        for event in told:
            writing.append(event)
    assert journal.verify().rows == len(told)
    views.rebuild(journal)
    assert journal.verify().rows == len(told)
