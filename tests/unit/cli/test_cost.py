import json

import pytest

from kagura_kernel.journal.store import Journal
from kagura_kernel.patterns.plans import NO_ESTIMATE
from tests.support.sample_run import SampleRun


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
def test_without_a_run_there_is_nothing_to_pay(prints):
    assert prints("cost").startswith("No run yet: ")


@pytest.mark.usefixtures("paid")
def test_what_is_not_known_is_a_dash_and_the_sum_says_so(prints):
    _, *rows, total = prints("cost").splitlines()
    assert [row.split()[-1] for row in rows] == ["-", "-", "0.1250"]
    assert "1,200" in rows[2]
    assert total == "$0.1250 for 3 runs, 1 of them of unknown price, which is not in the sum."
    assert prints("cost", "run-2").splitlines()[-1] == "An unknown cost for 1 run."


@pytest.mark.usefixtures("paid")
def test_some_runs_alone_are_told_as_json(prints):
    assert [(row["run_id"], row["usd"]) for row in json.loads(prints("cost", "n-1", "run-2", "--json"))] == [
        ("run-2", None),
        ("run-1", 0.125),
    ]
    assert len(json.loads(prints("cost", "--limit", "1", "--json"))) == 1


def test_what_children_cost_stands_beside_their_parent_and_is_summed_once(journal, prints):
    for run_id, above, usd in (("run-1", (), 0.25), ("run-2", ("run-1",), 0.5)):
        told = SampleRun(run_id)
        journal.append(told.started(lineage=above))
        journal.append(told.finished(computed_usd=usd))
    head, child, parent, total = prints("cost").splitlines()
    assert head.endswith("with its children")
    assert child.split()[-2:] == ["0.5000", "-"]
    assert parent.split()[-3:] == ["0.2500", "0.7500", "(1)"]
    assert total == "$0.7500 for 2 runs."
    assert prints("cost", "run-1").splitlines()[-1] == "$0.2500 for 1 run, and $0.7500 with 1 child."
    [row] = json.loads(prints("cost", "run-1", "--json"))
    assert (row["usd"], row["children"], row["children_usd"], row["total_usd"]) == (0.25, 1, 0.5, 0.75)


@pytest.fixture
def expected(journal: Journal) -> None:
    """Runs that were expected to cost and to take something, and one of which nobody knew."""
    for number, (usd, status) in enumerate(((0.12, "done"), (0.5, "done"), (0.01, "killed")), 1):
        told = SampleRun(f"run-{number}")
        journal.append(told.started())
        figures = {"estimated_usd": 0.1, "estimated_seconds": 60.0, "reported_usd": usd, "duration": 66.0}
        journal.append(told.finished(status=status, **figures))
    unknown = SampleRun("run-4")
    journal.append(unknown.started())
    journal.append(unknown.finished())


@pytest.mark.usefixtures("expected")
def test_estimates_are_told_beside_what_came_of_them(prints):
    _, killed, dear, good, line = prints("cost", "--calibration").splitlines()
    assert " ".join(good.split()) == "run-1 done 0.1000 0.1200 +20% yes 1 min 00 s 1 min 06 s +10% yes"
    assert " ".join(dear.split()).startswith("run-2 done 0.1000 0.5000 +400% no")
    assert " ".join(killed.split()).startswith("run-3 killed 0.1000 0.0100 - -")
    assert line.startswith("Cost: 50% of 2 within the estimate and 30% more; half of the estimates were off by at most")


@pytest.mark.usefixtures("expected")
def test_estimates_are_told_as_json(prints):
    [row] = json.loads(prints("cost", "--calibration", "run-2", "run-4", "--json"))
    assert (row["run_id"], row["usd_within"], row["usd_error"]) == ("run-2", False, pytest.approx(4.0))


@pytest.mark.usefixtures("paid")
def test_without_an_estimate_there_is_nothing_to_compare(prints):
    assert prints("cost", "--calibration") == f"{NO_ESTIMATE}\n"
