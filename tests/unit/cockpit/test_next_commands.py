"""Which commands still do something with what a list shows."""

from contextlib import closing
from dataclasses import replace

import pytest

from kagura_kernel.cockpit.next_commands import of_changes, of_plugin, of_run, of_session
from kagura_kernel.domain.commits import Commit, CommittedBranch, Moved
from kagura_kernel.domain.outcome import FileChange, Written
from kagura_kernel.domain.plugins import PluginState
from kagura_kernel.journal.owner import owner_alive, process_owner
from kagura_kernel.journal.session_registry import sessions
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import runs
from kagura_kernel.plugins.manager import PluginRow
from tests.support.sample_run import SampleRun

ROW = PluginRow("fs-read", "1.0.0")


@pytest.mark.parametrize(
    ("row", "commands"),
    [
        (ROW, ["enable"]),
        (replace(ROW, state=PluginState.ENABLED, approved=True), ["disable", "unapprove"]),
        (replace(ROW, quarantine="it asked too often"), ["audit"]),
        (replace(ROW, danger="it runs programs"), []),
        (replace(ROW, problem="no manifest"), []),
    ],
)
def test_a_plugin_is_turned_on_or_off_or_examined_anew(row, commands):
    assert of_plugin(row) == [f"%kagura plugin {command} fs-read" for command in commands]


def test_what_waits_is_brought_in_or_given_up_and_what_was_brought_in_is_taken_back():
    waits = FileChange(path="a", status="added")
    done = FileChange(path="b", status="added", state="applied", written=(Written("b", ""),))
    cell = FileChange(path="n.ipynb#c", status="added", kind="code", state="applied", written=(Written("c", ""),))
    assert of_changes("run-1", [waits, done]) == ["%kagura apply run-1", "%kagura discard run-1", "%kagura undo run-1"]
    assert of_changes("run-1", [cell]) == []


def test_commits_that_wait_are_brought_in_or_given_up_and_applied_ones_taken_back():
    waits = CommittedBranch("main", "1" * 40, "2" * 64)
    applied = replace(waits, state="applied", moved=Moved("refs/heads/main", "", waits.head))
    lost = replace(waits, bundle="", reason="it holds a leased credential")
    assert of_changes("run-1", [], [waits, lost]) == [
        "%kagura apply run-1 --commits",
        "%kagura discard run-1 --commits",
    ]
    assert of_changes("run-1", [], [applied]) == ["%kagura undo run-1 --commits"]
    assert of_changes("run-1", [], [lost]) == []


def test_a_run_that_committed_and_changed_no_file_has_its_commits_to_apply(tmp_path):
    branch = CommittedBranch("main", "1" * 40, "2" * 64, (Commit("1" * 40),))
    with closing(Journal.open(tmp_path)) as journal:
        run = SampleRun("run-1", "mine")
        journal.append(run.started(owner=process_owner()))
        journal.append(run.committed(branch))
        journal.append(run.finished())
        (row,) = runs(journal)
        assert of_run(journal, row) == ["%kagura apply run-1 --commits"]
        journal.append(run.committed(replace(branch, commits=(), state="discarded")))
        assert of_run(journal, row) == []


def test_a_session_is_gone_on_with_when_nothing_of_it_runs(tmp_path):
    with closing(Journal.open(tmp_path)) as journal:
        journal.append(SampleRun("run-1", "mine").started(owner=process_owner()))
        (row,) = sessions(journal)
        assert of_session(journal, row) == ["%kagura kill run-1"]
        journal.append(SampleRun("run-1", "mine").finished())
        (row,) = sessions(journal)
        assert of_session(journal, row) == ["%%kagura --session mine"]


def test_a_run_whose_process_is_gone_is_marked_so(tmp_path):
    host, pid, began = process_owner().split(":")
    with closing(Journal.open(tmp_path)) as journal:
        journal.append(SampleRun("run-1", "mine").started(owner=f"{host}:{pid}:0{began}"))
        (row,) = sessions(journal)
        assert not owner_alive(row.last.owner)
        assert of_session(journal, row) == ["%kagura kill run-1", "%%kagura --session mine"]
