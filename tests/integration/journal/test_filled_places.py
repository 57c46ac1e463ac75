"""A journal from before runs had places and budgets in their table gets both from its events."""

from __future__ import annotations

from contextlib import closing

import pytest
from sqlalchemy import text

from kagura_kernel.journal import schema, views
from kagura_kernel.journal.pages import one_run
from kagura_kernel.journal.schema import KNOWN_VERSION
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

STEP = 3
LAST = 6
INDEXES = (
    "journal_runs_notebook",
    "journal_runs_started",
    "journal_approvals_asked",
    "journal_events_leases",
    "journal_events_plugins",
    "journal_events_learned",
)
COLUMNS = ("notebook", "kernel_id", "cell_id", "budget_usd")
LATER = ("lineage", "resumes", "estimated_usd", "estimated_seconds", "verified", "untrusted")


def make_old(journal: Journal) -> None:
    """Take back what the step has done, and everything behind it."""
    assert KNOWN_VERSION == LAST, "a further step needs its own way back here"
    with journal.writing() as writing:
        for name in INDEXES:
            writing.connection.execute(text(f"DROP INDEX {name}"))
        for name in ("checkpoints", "heard", "posts"):
            writing.connection.execute(text(f"DROP TABLE journal_{name}"))
        writing.connection.execute(text("ALTER TABLE journal_approvals DROP COLUMN lineage"))
        for name in (*COLUMNS, *LATER):
            writing.connection.execute(text(f"ALTER TABLE journal_runs DROP COLUMN {name}"))
        writing.connection.execute(text(f"DELETE FROM journal_version WHERE version >= {STEP}"))
    journal.close()


def test_an_old_journal_knows_its_places_afterwards_and_verifies(open_journal, monkeypatch):
    monkeypatch.setattr(schema, "_CHUNK", 2)
    journal = open_journal()
    place = {"notebook": "odd \udcff\x00.ipynb", "kernel_id": "k-1", "cell_id": "c-1"}
    journal.append(SampleRun("run-0").finished())
    journal.append(SampleRun("run-1").started(budget_usd=2.5, **place))
    for number in range(2, 7):
        journal.append(SampleRun(f"run-{number}").started(budget_usd=number / 2))
    journal.append(SampleRun("run-1").finished())
    before = views.runs(journal)
    make_old(journal)

    again = open_journal()
    assert views.runs(again) == before
    row = one_run(again, "run-1")
    assert (row.notebook, row.kernel_id, row.budget_usd) == ("odd \\udcff\\x00.ipynb", "k-1", 2.5)
    assert one_run(again, "run-0").budget_usd is None
    assert again.verify().rows == 8
    views.rebuild(again)
    assert views.runs(again) == before


@pytest.mark.parametrize("body", ["nothing", "[]", '"text"', '{"budget_usd": "much", "notebook": 7}'])
def test_a_row_that_is_no_event_is_left_to_verify(where, open_journal, body):
    journal = open_journal()
    journal.append(SampleRun("run-1").started())
    journal.append(SampleRun("run-2").started(notebook="n.ipynb"))
    with journal.writing() as writing:
        writing.connection.execute(text("UPDATE journal_events SET body = :body WHERE seq = 1"), {"body": body})
    make_old(journal)
    # Nothing can be run on it any more, and still it can be read.
    with closing(Journal.open(where, create=False)) as again:
        _no_event_is_left(again)


def _no_event_is_left(again: Journal) -> None:
    assert one_run(again, "run-1").notebook == ""
    assert one_run(again, "run-2").notebook == "n.ipynb"
