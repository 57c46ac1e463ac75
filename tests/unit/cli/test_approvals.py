"""`approvals`, `approve` and `deny`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kagura_kernel import open_memory
from kagura_kernel.cli.main import main
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.memory import Author, Source
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.patterns.lessons import Failure, lesson_draft
from tests.support.sample_run import SampleRun


@pytest.fixture
def asked(journal: Journal, running: Callable[[], RunHandle]) -> Mailbox:
    """A run that goes on asks `app-12`; an old one had its answer to `app-1`."""
    old = SampleRun("run-old")
    for event in (old.started(), old.asked("app-1"), old.decided("app-1", verdict="deny"), old.finished()):
        journal.append(event)
    mailbox = Mailbox(journal)
    mailbox.post(SampleRun(running().run_id, at=SystemClock().now()).request("app-12"))
    return mailbox


@pytest.mark.usefixtures("journal")
def test_nothing_asked_is_said_in_words(prints):
    assert main(["approvals"]) == 0
    both = prints("approvals", "--pending").splitlines()
    assert [line.partition(": ")[0] for line in both] == ["Nothing was asked for yet", "No approval waits"]


@pytest.mark.usefixtures("asked")
def test_what_waits_is_marked_and_what_was_answered_says_by_whom(prints):
    table = prints("approvals").partition("\n\n")[0]
    rows = {line.replace("*", " ").split()[0]: line for line in table.splitlines()[1:]}
    assert rows["app-12"].startswith("*  app-12")
    assert "waits" in rows["app-12"]
    assert " deny " in rows["app-1"]
    assert " ada " in rows["app-1"]
    (row,) = json.loads(prints("approvals", "--pending", "--json"))
    assert (row["id"], row["verdict"], row["detail"]) == ("app-12", None, "git push")


def test_what_waits_is_told_in_full_with_whom_it_is_for(journal, prints):
    told = SampleRun("run-3", at=SystemClock().now())
    command = f"git push \x1b[2J\n  && {'x' * 300}"
    journal.append(told.started(lineage=("run-1", "run-2")))
    Mailbox(journal).post(
        told.request("app-5", detail=command, arguments={"command": command}, lineage=("run-1", "run-2"))
    )
    head, row, _, title, *lines = prints("approvals", "--pending").splitlines()
    assert head.split()[-2:] == ["title", "what"]
    assert row.endswith("git push ⟨U+001B⟩[2J…")
    assert (head.split()[2], "  run-1 → run-2  " in row) == ("lineage", True)
    assert title == (
        "app-5: Run a command on this machine (asked by run-3, which works for run-2, which works for run-1)"
    )
    assert lines[:2] == ["    git push ⟨U+001B⟩[2J", f"      && {'x' * 300}"]
    assert lines[2:4] == ["  (2 lines)", "  why, in the asker’s words: the box has no network"]
    assert lines[-1] == "  `kagura-kernel approve app-5` or `kagura-kernel deny app-5`"


def test_a_command_of_the_host_is_told_by_its_own_words_in_the_table(journal, prints):
    told = SampleRun("run-3", at=SystemClock().now())
    journal.append(told.started())
    detail = "Command:\n    git push\nDirectory: /home/ada"
    arguments = {"command": "git push", "directory": "/home/ada"}
    Mailbox(journal).post(told.request("app-5", detail=detail, arguments=arguments))
    _, row, *lines = prints("approvals").splitlines()
    assert row.endswith("  git push")
    assert "  directory: /home/ada" in lines


def test_a_plan_that_waits_tells_what_its_lessons_say_and_the_journal_does_not(journal, prints):
    failure = Failure("command", "`make` ended with 2", "no rule to make ‘all’", "`cmake .`")
    with open_memory() as memory:
        lesson = memory.remember(lesson_draft(failure, task="Build it", scope="", source=Source(Author.ENGINE)))
    told = SampleRun("run-3", at=SystemClock().now())
    journal.append(told.started())
    arguments = {"budget_usd": 0.5, "lessons": [lesson.id], "fixes": []}
    plan = {"kind": ApprovalKind.PLAN, "title": "Plan", "detail": f"Lessons: {lesson.id}", "arguments": arguments}
    Mailbox(journal).post(told.request("app-5", **plan))
    lines = prints("approvals").splitlines()
    assert f"      {lesson.id}: NOT trusted, seen once, from engine" in lines
    assert "        what went wrong: “`make` ended with 2”" in lines
    assert "        what was said then: “no rule to make ‘all’”" in lines
    assert "        what mended it: “`cmake .`”" in lines
    assert "cmake" not in prints("approvals", "--json")


@pytest.mark.parametrize(("word", "allowed", "said"), [("approve", True, "allowed"), ("deny", False, "denied")])
def test_an_approval_is_answered_for_the_run_that_waits(asked, word, allowed, said, capsys):
    assert main([word, "p-12", "this", "session"]) == 0
    assert capsys.readouterr() == (f"app-12: {said}.\n", "")
    decision = asked.decision("app-12")
    assert decision is not None
    assert (decision.allowed, decision.via, decision.answer) == (allowed, "terminal", "this session")


def test_a_secret_in_an_answer_is_not_stored(asked, capsys):
    token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    assert main(["approve", "p-12", "use", token]) == 0
    capsys.readouterr()
    assert token not in asked.decision("app-12").answer


@pytest.mark.usefixtures("asked")
def test_the_first_answer_stands(prints, refuses):
    told = json.loads(prints("deny", "app-12", "--json"))
    assert (told["approval_id"], told["verdict"], told["heard"]) == ("app-12", "deny", True)
    assert refuses("approve", "app-12").startswith(
        "ERR_APPROVAL_DECIDED: Approval app-12 was already decided: deny by "
    )


def test_an_answer_that_nobody_hears_says_so(journal, gone, capsys):
    run = SampleRun(at=SystemClock().now())
    journal.append(run.started(owner=gone))
    Mailbox(journal).post(run.request("app-3"))
    assert main(["approvals", "--pending"]) == main(["status"]) == 0
    listed = capsys.readouterr().out
    assert "nobody acts on an answer: `kagura-kernel kill run-1` calls it off" in listed
    assert "approve" not in listed
    assert main(["approvals", "--pending", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["next"] == ["kagura-kernel kill run-1"]
    assert main(["approve", "app-3"]) == 1
    assert capsys.readouterr() == ("app-3: allowed.\n", "The process that asked is gone: nobody acts on this answer.\n")


@pytest.mark.usefixtures("asked")
def test_an_approval_that_is_not_there_is_an_error(refuses):
    assert refuses("approve", "app-9") == (
        "ERR_APPROVAL_UNKNOWN: There is no approval 'app-9'. `kagura-kernel approvals` lists them.\n"
    )


def test_an_ending_that_fits_several_is_not_guessed_at(journal, refuses):
    run = SampleRun()
    journal.append(run.started())
    for name in ("app-1777", "app-2777"):
        Mailbox(journal).post(run.request(name))
    assert "'777' fits 2 approvals" in refuses("approve", "777")
    assert "'77' names no approval" in refuses("approve", "77")


def test_an_approval_is_found_however_many_were_asked_for_since(journal, prints):
    run = SampleRun(at=SystemClock().now())
    with journal.writing() as writing:
        writing.append(run.started(owner=process_owner()))
        for number in range(1002):
            writing.append(run.asked(f"app-{number:04d}"))
    assert prints("approve", "app-0000") == "app-0000: allowed.\n"
    assert prints("deny", "0001") == "app-0001: denied.\n"


def test_last_is_the_one_that_waits_and_of_several_none_is_guessed_at(journal, prints, refuses, monkeypatch, tmp_path):
    run, mailbox = SampleRun(at=SystemClock().now()), Mailbox(journal)
    journal.append(run.started(owner=process_owner(), project=str(Path.cwd())))
    assert refuses("approve", "last").startswith("ERR_USAGE: No approval waits. `kagura-kernel approvals` lists")
    for name in ("app-1", "app-2"):
        mailbox.post(run.request(name))
    assert "'last' fits 2 approvals that wait (app-2, app-1)" in refuses("approve", "last")
    assert main(["deny", "app-2"]) == 0
    monkeypatch.chdir(tmp_path)
    assert "No approval waits in this folder" in refuses("approve", "last")
    assert prints("approve", "last", "everywhere") == "app-1: allowed.\n"


@pytest.mark.usefixtures("asked")
def test_a_slip_in_an_option_is_no_answer(asked, refuses):
    assert "Did you mean --json?" in refuses("approve", "app-12", "--jsn")
    assert asked.decision("app-12") is None


def test_no_answer_in_time_is_a_denial_also_for_whoever_comes_with_one_later(journal, capsys):
    Mailbox(journal).post(SampleRun("run-old").request("app-1"))
    assert main(["approve", "app-1"]) != 0
    assert "deadline" in capsys.readouterr().err
    assert Mailbox(journal).decision("app-1") is None
