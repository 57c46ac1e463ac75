from __future__ import annotations

import json

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.cli.runs import contain
from kagura_kernel.domain.errors import RunUnknown
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from tests.support.sample_run import SampleRun


def test_a_run_is_stopped_and_its_end_is_told(running, capsys):
    handle = running()
    assert main(["kill", handle.run_id]) == 0
    assert capsys.readouterr().out == f"{handle.run_id}: killed\n"
    assert handle.result(timeout=60).status == "killed"


def test_one_run_is_stopped_and_the_others_go_on(running, journal):
    first, second = running(), running()
    assert main(["kill", first.run_id]) == 0
    assert [row.run_id for row in views.unfinished(journal)] == [second.run_id]


def test_all_runs_are_stopped_at_once(running, journal, capsys):
    handles = {running().run_id, running().run_id}
    assert main(["kill", "--all", "--json"]) == 0
    ends = json.loads(capsys.readouterr().out)
    assert {end["run_id"] for end in ends} == handles
    assert {(end["over"], end["status"]) for end in ends} == {(True, "killed")}
    assert views.unfinished(journal) == []


def test_a_run_whose_process_is_gone_is_marked_as_lost(journal, gone, capsys):
    journal.append(SampleRun().started(owner=gone))
    assert main(["kill", "run-1"]) == 0
    assert capsys.readouterr().out == "run-1: lost (its process was gone already)\n"
    assert views.runs(journal)[0].status == "lost"


def test_a_run_that_is_over_needs_nothing(journal, capsys):
    journal.append(SampleRun().started())
    journal.append(SampleRun().finished())
    assert main(["kill", "run-1"]) == 0
    assert capsys.readouterr().out == "run-1: it was over already, done\n"


def test_a_run_that_does_not_hear_is_told_and_fails(journal, capsys):
    journal.append(SampleRun().started(owner=process_owner()))
    assert main(["kill", "run-1", "--wait", "0"]) == 1
    assert "run-1: still going on after 0 s" in capsys.readouterr().out
    (word,) = Mailbox(journal).take(["run-1"])
    assert word.word == "kill"


def test_of_several_runs_none_is_stopped_when_one_is_unknown(journal):
    journal.append(SampleRun().started(owner=process_owner()))
    with pytest.raises(RunUnknown):
        contain(journal, ["run-1", "run-9"], by="ada", seconds=0)
    assert Mailbox(journal).take(["run-1"]) == []


@pytest.mark.usefixtures("journal")
def test_with_nothing_going_on_there_is_nothing_to_kill(capsys):
    assert main(["kill", "--all"]) == 0
    assert capsys.readouterr().out == "No run is going on.\n"


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("words", [["kill"], ["kill", "run-1", "--all"]])
def test_it_must_be_said_which_runs(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("ERR_USAGE: Say which runs")


@pytest.mark.usefixtures("journal")
def test_an_unknown_run_is_an_error(capsys):
    assert main(["kill", "run-9"]) == 2
    assert "ERR_RUN_UNKNOWN" in capsys.readouterr().err


def test_the_end_of_an_id_names_a_run(journal, capsys):
    for run_id in ("run-1", "run-2"):
        journal.append(SampleRun(run_id).started())
        journal.append(SampleRun(run_id).finished())
    assert main(["kill", "n-2"]) == 0
    assert capsys.readouterr().out == "run-2: it was over already, done\n"


def test_an_end_that_fits_several_runs_is_wrong_usage_and_none_is_stopped(journal, capsys):
    for run_id in ("run-a1", "run-b1"):
        journal.append(SampleRun(run_id).started(owner=process_owner()))
    assert main(["kill", "1"]) == 2
    assert capsys.readouterr().err.startswith("ERR_USAGE: '1' fits 2 runs (run-b1, run-a1); give the whole id")
    assert Mailbox(journal).take(["run-a1", "run-b1"]) == []


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("word", ["", "%", "_"])
def test_an_empty_end_and_the_signs_of_a_search_name_no_run(word, journal, capsys):
    journal.append(SampleRun().started(owner=process_owner()))
    assert main(["kill", word]) == 2
    assert capsys.readouterr().err.startswith("ERR_RUN_UNKNOWN: ")


def test_the_end_of_an_id_is_compared_letter_by_letter(journal, capsys):
    journal.append(SampleRun("run-abc").started(owner=process_owner()))
    assert main(["kill", "ABC"]) == 2
    assert capsys.readouterr().err.startswith("ERR_RUN_UNKNOWN: ")


def test_last_is_the_newest_run_of_the_folder_that_goes_on(running, journal, gone, capsys, tmp_path, monkeypatch):
    older, newer = running(), running()
    assert main(["kill", "last"]) == 2
    said = capsys.readouterr().err
    assert f"the newest elsewhere is {newer.run_id} in {tmp_path / 'project'}" in said
    assert {row.run_id for row in views.unfinished(journal)} == {older.run_id, newer.run_id}
    monkeypatch.chdir(tmp_path / "project")
    journal.append(SampleRun("run-over").started())
    journal.append(SampleRun("run-over").finished())
    journal.append(SampleRun("run-lost").started(owner=gone))
    assert main(["kill", "last"]) == 0
    assert capsys.readouterr().out == f"{newer.run_id}: killed\n"
    assert [row.run_id for row in views.unfinished(journal)] == [older.run_id]


@pytest.mark.usefixtures("journal")
def test_with_nothing_going_on_there_is_no_last(capsys):
    assert main(["kill", "last"]) == 2
    assert capsys.readouterr().err.startswith("ERR_USAGE: There is nothing to stop")
