"""Commits in a card, in a notebook's commands and in a terminal: real runs in real boxes."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.cockpit.transports import changes
from kagura_kernel.jupyter import live_run
from kagura_kernel.jupyter.live_run import ChangeCard
from kagura_kernel.render.html import html_of
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.views.changes import Beside
from kagura_kernel.views.record import CHANGES_MIME, changes_bundle
from tests.support.redactors import shared_redactor
from tests.support.repositories import Committing, new_repository
from tests.support.steering import steer

LINE = (
    "echo two > a.txt; git commit -qam 'Add two' -m 'For the sum.';"
    " echo x > conftest.py; git add .; git commit -qm Tests"
)
HEADLESS = SimpleNamespace(kernel=None, user_ns={})


@pytest.fixture
def committing(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Committing]:
    home = tmp_path / "home"
    monkeypatch.setenv("KAGURA_HOME", str(home))
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.chdir(project)
    cockpit = fake_cockpit(home, backend=BubblewrapBackend(), redactor=shared_redactor())
    yield Committing(cockpit, new_repository(project))
    cockpit.close()


def test_a_terminal_lists_applies_and_takes_back(committing, capsys):
    def prints(*words: str, code: int = 0) -> str:
        assert main([*words]) == code
        said = capsys.readouterr()
        return said.out or said.err

    run = committing.run(LINE)
    first, second = committing.branches(run)["main"].commits
    told = prints("commits", "last")
    assert (
        f"main    {first.id[:8]}  Add two  kagura agent <agent@kagura.invalid>  1      1      1        proposed" in told
    )
    assert "For the sum.\n\n--- a/a.txt" in told
    rows = json.loads(prints("commits", "--json"))
    assert [(row["commit"], row["files"], row["added"]) for row in rows] == [
        (first.id[:8], 1, 1),
        (second.id[:8], 1, 1),
    ]
    assert "[2 commits on main]" in prints("changes", "last")
    assert f"applied: the commits on main (main is at {second.id[:8]})" in prints("apply", "last", "--commits")
    assert committing.repository.subjects == ["Tests", "Add two", "first"]
    assert "taken back, and wait again: the commits on main" in prints("undo", "last", "--commits")
    assert "(tidied is at" in prints("apply", "last", "--commits", "--branch", "tidied")
    assert json.loads(prints("undo", "last", "main", "--commits", "--json"))["branches"][0]["state"] == "proposed"
    committing.repository.write("a.txt", "mine\n")
    assert "a.txt has changes of yours that are not committed" in prints("apply", "last", "--commits", code=2)
    assert "discarded: the commits on main" in prints("discard", "last", "--commits")


def test_a_notebook_has_them_as_a_table(committing, capsys):
    run = committing.run(LINE)
    table = steer(committing.cockpit, HEADLESS, f"commits {run.run_id}")
    assert list(table["subject"]) == ["Add two", "Tests"]
    assert list(table.columns) == ["branch", "commit", "subject", "author", "files", "added", "removed", "state"]
    for line in (
        f"apply {run.run_id} --commits main",
        f"undo {run.run_id} --commits",
        f"discard {run.run_id} --commits",
    ):
        steer(committing.cockpit, HEADLESS, line)
    words = [line.partition(" (")[0] for line in capsys.readouterr().out.splitlines()]
    what = "the commits on main"
    assert words == [f"applied: {what}", f"taken back, and wait again: {what}", f"discarded: {what}"]


def test_a_chat_tells_commits_and_decides_about_them_and_about_no_file(committing):
    run = committing.run("echo two > a.txt; git commit -qam 'Add two'")
    cockpit = committing.cockpit
    lines = changes.commits(cockpit, run.run_id)
    assert lines[0] == "[1 commit on main]"
    assert "Add two" in lines[1]
    assert lines[-1] == "/apply --commits, /discard --commits"
    (told,), _ = changes.settle(cockpit, "discard", "--commits", run.run_id, "Ada")
    assert told == "discarded: the commits on main"
    assert committing.branches(run)["main"].state == "discarded"
    assert committing.states(run) == {"a.txt": "proposed"}
    assert changes.commits(cockpit, run.run_id)[-1] != lines[-1]


def test_a_card_shows_each_commit_folded_and_applies_them_by_a_button(committing, monkeypatch):
    monkeypatch.setattr(live_run, "aside", lambda work: work())
    run = committing.run(f"{LINE}; git branch 'odd&name' HEAD~1")
    cockpit, changes = committing.cockpit, {one.path: one for one in run.changes}
    card = ChangeCard(cockpit, run.run_id, changes, Beside(branches=committing.branches(run)))
    shown = html_of(card._parts()["all"])
    assert shown.count(">Apply commits<") == 2
    assert "Add two" in shown
    assert "For the sum." in shown
    assert "runs by itself" in shown
    assert 'data-id="odd%26name"' in shown or "odd&amp;name" in shown
    card._pressed({"act": "apply-commits", "id": "main"})
    assert committing.repository.subjects == ["Tests", "Add two", "first"]
    assert "Undo" in html_of(card._parts()["all"])
    card._pressed({"act": "apply-commits", "id": "odd&name"})
    assert committing.branches(run)["odd&name"].state == "applied"
    card._pressed({"act": "undo-commits", "id": "main"})
    assert committing.repository.subjects == ["first"]


def test_a_saved_card_says_what_was_committed_without_what_differs_every_time(committing):
    secret = "ghp_" + "x9Kd82Lmq0ZtR4vBnE6wYc1UaHs3FgJp7TqW"[:36]
    run = committing.run(f"echo token={secret} > a.txt; git commit -qam 'Use {secret}'")
    data, _ = changes_bundle({}, beside=Beside(branches=committing.branches(run)))
    (row,) = data[CHANGES_MIME]["commits"]
    assert (row["branch"], row["state"], set(row)) == ("main", "proposed", {"branch", "subject", "author", "state"})
    assert secret not in json.dumps(data)
    assert row["subject"].startswith("Use [REDACTED:")
