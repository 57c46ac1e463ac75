import json
from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.domain.events import EgressClosed, EgressDecided

NOW = datetime.now(UTC)


def asked(
    number: int, run_id: str = "run-1", *, allowed: bool = True, ago: float = 60, **more: object
) -> EgressDecided:
    values = {"host": "pypi.org", "port": 443, "rule": "python-packages" if allowed else "", "reason": "it is so."}
    return EgressDecided(
        run_id=run_id,
        session_id="ses-1",
        at=NOW - timedelta(seconds=ago),
        connection_id=f"con-{number}",
        allowed=allowed,
        **values | more,
    )


def closed(number: int, run_id: str = "run-1", **more) -> EgressClosed:
    return EgressClosed(
        run_id=run_id,
        session_id="ses-1",
        at=NOW,
        connection_id=f"con-{number}",
        host="pypi.org",
        port=443,
        **{"address": "151.101.0.223", "bytes_out": 1200, "bytes_in": 5 * 2**20, "duration": 1.25} | more,
    )


def logged(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["egress", "log", "--json", *words]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_a_connection_is_one_line_from_its_decision_to_its_end(journal, prints):
    journal.append(asked(1))
    journal.append(closed(1))
    _, line = prints("egress", "log").splitlines()
    for part in ("run-1", "pypi.org:443", "allowed", "python-packages", "1.17 KiB", "5 MiB", "1.2 s", "done"):
        assert part in line


def test_only_the_refused_ones_of_one_run_can_be_listed(journal, capsys, prints):
    journal.append(asked(1))
    journal.append(asked(2, allowed=False, times=4))
    journal.append(asked(3, "run-2", allowed=False))
    assert [row["times"] for row in logged(capsys, "--refused", "--run", "run-1")] == [4]
    said = prints("egress", "log", "--refused", "--run", "run-1")
    assert "refused" in said
    assert "it is so." in said


def test_a_limit_counts_what_is_listed_and_not_what_is_skipped(journal, capsys):
    for number in range(5):
        journal.append(asked(number, allowed=number % 2 == 0))
    rows = logged(capsys, "--refused", "--limit", "2")
    assert [row["connection_id"] for row in rows] == ["con-3", "con-1"]


def test_a_log_that_is_as_long_as_it_may_be_says_so(journal, prints):
    journal.append(asked(1))
    assert prints("egress", "log", "--limit", "1").splitlines()[-1].startswith("No more than the newest 1 are shown")
    assert "the newest" not in prints("egress", "log")


def test_a_long_log_is_read_to_its_end(journal, capsys):
    with journal.writing() as writing:
        for number in range(2500):
            writing.append(asked(number, allowed=number != 7))
    assert [row["connection_id"] for row in logged(capsys, "--refused")] == ["con-7"]


def test_a_host_cannot_pose_as_another_line(journal, prints):
    journal.append(asked(1, allowed=False, host="a\nrun-9 allowed\x1b[2K"))
    said = prints("egress", "log")
    assert (len(said.splitlines()), "\x1b" in said) == (2, False)


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("word", ["nope", "last", ""])
def test_a_run_that_is_not_there_is_an_error_and_no_empty_list(word, refuses):
    assert refuses("egress", "log", "--run", word).startswith("ERR_RUN_UNKNOWN: ")


@pytest.mark.usefixtures("journal")
def test_nothing_asked_for_is_said(prints):
    assert prints("egress", "log").startswith("No connection was asked for: ")
