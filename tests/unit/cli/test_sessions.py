import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sessions and a child: one that is over, one whose second run waits for a person."""
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path))
    monkeypatch.delenv("KAGURA_JOURNAL_URL", raising=False)
    journal = Journal.open(tmp_path)
    over = SampleRun("run-1", "orchids")
    first, second = SampleRun("run-2", "ses-2"), SampleRun("run-3", "ses-2", RUN.at + timedelta(hours=1))
    child = SampleRun("run-4", "ses-4")
    owner = process_owner()
    for event in (over.started(task="water them"), over.finished(), first.started(), first.finished()):
        journal.append(event)
    journal.append(second.started(task="count again\x1b[31m", owner=owner))
    journal.append(child.started(lineage=("run-3",), owner=owner))
    journal.append(second.asked())
    Mailbox(journal).post(second.request())
    journal.close()
    return tmp_path


@pytest.mark.usefixtures("home")
def test_each_thread_of_runs_is_a_row_the_newest_first_and_children_are_none(prints):
    rows = json.loads(prints("sessions", "--json"))
    assert [(row["session_id"], row["state"], row["runs"]) for row in rows] == [
        ("ses-2", "waiting", 2),
        ("orchids", "done", 1),
    ]
    assert rows[0]["last"]["run_id"] == "run-3"
    assert rows[0]["waiting"] == 1


@pytest.mark.usefixtures("home")
def test_people_read_them_as_a_table_without_anybodys_colours(prints):
    said = prints("sessions", "--limit", "1")
    assert "ses-2" in said
    assert "orchids" not in said
    assert "\x1b" not in said


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("command", "total"), [("sessions", 2), ("runs", 4), ("cost", 4)])
def test_a_list_that_is_cut_says_how_many_more_there_are_and_how_to_see_them(prints, command, total):
    last = prints(command, "--limit", "1").splitlines()[-1]
    assert last == f"{total - 1} more {'is' if total == 2 else 'are'} not shown; `--limit {total}` shows them too."
    for whole in ([command], [command, "--limit", str(total)], [command, "--limit", "1", "--json"]):
        assert "not shown" not in prints(*whole)


@pytest.mark.usefixtures("home")
def test_so_does_that_of_approvals(home, prints):
    journal = Journal.open(home)
    journal.append(SampleRun("run-3", "ses-2").asked("app-2"))
    journal.close()
    assert prints("approvals", "--pending", "--limit", "1").endswith(
        "1 more is not shown; `--limit 2` shows them too.\n"
    )


def test_a_session_whose_process_is_gone_says_so(tmp_path, prints):
    journal = Journal.open(tmp_path)
    # No system hands out so large a number.
    gone = process_owner().replace(f":{os.getpid()}:", ":99999999:")
    journal.append(RUN.started(owner=gone))
    journal.close()
    [row] = json.loads(prints("sessions", "--dir", str(tmp_path), "--json"))
    assert row["state"] == "its process is gone"


def test_without_any_run_there_is_no_session(tmp_path, prints):
    Journal.open(tmp_path).close()
    assert prints("sessions", "--dir", str(tmp_path)).startswith("No session yet: ")
