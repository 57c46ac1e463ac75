from __future__ import annotations

import json

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.sample_run import SampleRun


@pytest.fixture
def paid(journal: Journal) -> None:
    """Three runs: one of a known price, one of an unknown one, and one of a cell's own code."""
    known, unknown, own = (SampleRun(f"run-{number}") for number in (1, 2, 3))
    for event in (
        known.started(),
        known.finished(computed_usd=0.125, source="list 1", input_tokens=1200, output_tokens=34),
        unknown.started(),
        unknown.finished(),
        own.started(brain=""),
        own.finished(brain="", model=""),
    ):
        journal.append(event)


@pytest.mark.usefixtures("journal")
def test_without_a_run_there_is_nothing_to_pay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost"]) == 0
    assert capsys.readouterr().out == "No run yet.\n"


@pytest.mark.usefixtures("paid")
def test_what_is_not_known_is_a_dash_and_the_sum_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost"]) == 0
    _, *rows, total = capsys.readouterr().out.splitlines()
    assert [row.split()[-1] for row in rows] == ["-", "-", "0.1250"]
    assert "1,200" in rows[2]
    assert total == "$0.1250 in all, and 1 of unknown price."


@pytest.mark.usefixtures("paid")
def test_some_runs_alone_are_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "1", "run-2", "--json"]) == 0
    assert [(row["run_id"], row["usd"]) for row in json.loads(capsys.readouterr().out)] == [
        ("run-2", None),
        ("run-1", 0.125),
    ]
    assert main(["cost", "--limit", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
