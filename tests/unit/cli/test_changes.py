"""`changes`, `apply` and `discard`: a real project, a real store of contents."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.domain.events import ChangesCollected, ChangesSettled
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.steering.runs import told
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.changes import unified_diff
from tests.support.sample_run import SampleRun


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    """A content as a box hands it over."""
    yield content


@pytest.fixture
def project(journal: Journal, books: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that `run-1` has changed, and a terminal in it: `a.txt` is new, `b.txt` is other than before."""
    monkeypatch.chdir(project)
    (project / "b.txt").write_text("old\n")
    rows = []
    for name, status, content, before in (
        ("a.txt", "added", b"new\n", b""),
        ("b.txt", "modified", b"newer\n", b"old\n"),
    ):
        after, size = asyncio.run(BlobStore(books / "blobs").put(pieces(content)))
        old = hashlib.sha256(before).hexdigest() if before else ""
        diff = f"--- {name}\n+++ {name}\n+{content.decode()}"
        rows.append(FileChange(path=name, status=status, size=size, old_sha256=old, new_sha256=after, diff=diff))
    run = SampleRun()
    collected = ChangesCollected(run_id="run-1", session_id="ses-1", at=run.at, changes=tuple(rows))
    for event in (run.started(project=str(project)), collected, run.finished()):
        journal.append(event)
    return project


@pytest.mark.usefixtures("project")
def test_changes_are_listed_with_their_differences(prints):
    said = prints("changes", "last")
    assert "A a.txt" in said
    assert "M b.txt" in said
    assert "+newer" in said
    assert [(one["path"], one["state"]) for one in json.loads(prints("changes", "n-1", "--json"))] == [
        ("a.txt", "proposed"),
        ("b.txt", "proposed"),
    ]


def test_changes_are_applied_one_by_one_or_all(project, prints):
    assert prints("apply", "last", "a.txt") == f"run-1 in {project}:\napplied: a.txt\n"
    assert ((project / "a.txt").read_text(), (project / "b.txt").read_text()) == ("new\n", "old\n")
    assert json.loads(prints("apply", "last", "--json"))["applied"] == ["b.txt"]
    assert (project / "b.txt").read_text() == "newer\n"
    assert prints("apply", "last") == f"run-1 in {project}:\nnothing was waiting\n"


def test_what_was_applied_is_taken_back(project, prints, refuses):
    prints("apply", "last")
    assert prints("undo", "last", "b.txt") == f"run-1 in {project}:\ntaken back, and waits again: b.txt\n"
    assert (project / "b.txt").read_text() == "old\n"
    assert json.loads(prints("undo", "last", "--json"))["undone"] == ["a.txt"]
    assert not (project / "a.txt").exists()
    assert refuses("undo", "last").startswith("ERR_UNSUPPORTED: ")


def test_last_never_is_a_run_of_another_folder_unless_it_is_last_everywhere(project, tmp_path, monkeypatch, refuses):
    monkeypatch.chdir(tmp_path)
    said = refuses("apply", "last")
    assert said.startswith("ERR_RUN_UNKNOWN: ")
    assert f"this folder ({tmp_path}), which has none yet: " in said
    assert f"the newest elsewhere is run-1 in {project}." in said
    assert not (project / "a.txt").exists()
    assert main(["apply", "last", "everywhere", "b.txt"]) == 0
    assert ((project / "a.txt").exists(), (project / "b.txt").read_text()) == (False, "newer\n")
    assert main(["apply", "run-1"]) == 0
    assert (project / "a.txt").exists()


def test_what_is_given_up_is_never_written(project, prints):
    assert prints("discard", "run-1") == f"run-1 in {project}:\ndiscarded: a.txt, b.txt\n"
    assert not (project / "a.txt").exists()


def test_a_file_that_changed_meanwhile_is_left_alone(project, capsys, refuses):
    (project / "b.txt").write_text("mine\n")
    assert main(["apply", "last"]) == 1
    left_alone = "left alone, the project’s file changed meanwhile: b.txt"
    assert capsys.readouterr().out == f"run-1 in {project}:\napplied: a.txt\n{left_alone}\n"
    assert (project / "b.txt").read_text() == "mine\n"
    assert refuses("apply", "last", "b.txt").startswith("ERR_CHANGE_CONFLICT: ")


def test_the_contents_lie_beside_the_journal_that_is_named(project, books, monkeypatch, tmp_path):
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "elsewhere"))
    assert main(["apply", "last", "--dir", str(books)]) == 0
    assert (project / "a.txt").read_text() == "new\n"


def test_of_many_files_the_first_are_named_and_the_rest_counted():
    paths = tuple(f"{number:04}.txt" for number in range(1_030))
    settled = ChangesSettled(run_id="run-1", session_id="ses-1", at=datetime.now(UTC), applied=paths)
    said = told(settled, "")
    assert said == f"applied: {', '.join(paths[:20])} and 1,010 more"


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["changes", "nobody"], "ERR_RUN_UNKNOWN"),
        (["apply", "last", "c.txt"], "ERR_UNKNOWN_NAME"),
        (["apply"], "ERR_USAGE"),
    ],
)
def test_what_is_not_there_is_an_error(words, code, refuses):
    assert refuses(*words).startswith(f"{code}: ")


def test_a_run_without_changes_says_so_and_one_that_goes_on_that_they_come(journal, prints):
    run = SampleRun("run-2")
    journal.append(run.started())
    assert prints("changes", "run-2") == "run-2 goes on: what it changes is known when it is over.\n"
    journal.append(run.finished())
    assert prints("changes", "run-2") == "run-2 changed no files.\n"


def test_a_hunk_is_applied_by_its_number(journal, books, project, prints, monkeypatch, refuses):
    monkeypatch.chdir(project)
    old = "".join(f"{number}\n" for number in range(30))
    new = old.replace("3\n", "three\n", 1).replace("28\n", "")
    (project / "c.txt").write_text(old)
    hashes = [asyncio.run(BlobStore(books / "blobs").keep(text.encode())) for text in (old, new)]
    diff = unified_diff("c.txt", old.encode(), new.encode())
    change = FileChange("c.txt", "modified", old_sha256=hashes[0], new_sha256=hashes[1], diff=diff)
    run = SampleRun("run-2")
    collected = ChangesCollected(run_id="run-2", session_id="ses-1", at=run.at, changes=(change,))
    for event in (run.started(project=str(project)), collected):
        journal.append(event)
    assert "@@ hunk 2\n" in prints("changes", "n-2")
    assert prints("apply", "n-2", "c.txt", "--hunk", "2") == f"run-2 in {project}:\napplied: hunk 2 of c.txt\n"
    assert (project / "c.txt").read_text() == old.replace("28\n", "")
    assert "@@ hunk 2 (applied)\n" in prints("changes", "n-2")
    assert prints("discard", "n-2", "c.txt", "--hunk", "1").endswith("\ndiscarded: hunk 1 of c.txt\n")
    assert "(applied)" in prints("changes", "n-2")
    assert refuses("apply", "n-2", "--hunk", "1").startswith("ERR_USAGE: ")


def test_a_new_notebook_is_shown_by_its_cells(journal, books, project, prints):
    cells = [nbformat.v4.new_markdown_cell("# Sales", id="title"), nbformat.v4.new_code_cell("a = 1\nb\x1b", id="two")]
    made = nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()
    content = asyncio.run(BlobStore(books / "blobs").keep(made))
    diff = unified_diff("n.ipynb", b"", made)
    change = FileChange("n.ipynb", "added", size=len(made), new_sha256=content, diff=diff)
    run = SampleRun("run-2")
    for event in (
        run.started(project=str(project)),
        ChangesCollected(run_id="run-2", session_id="ses-1", at=run.at, changes=(change,)),
    ):
        journal.append(event)
    said = prints("changes", "n-2")
    assert "\nn.ipynb\nmarkdown cell title\n+# Sales\n\ncode cell two\n+a = 1\n+b" in said
    assert "nbformat" not in said
    assert "\x1b" not in said


def test_apply_says_which_files_no_decision_brings_in(journal, project, prints):
    run = SampleRun()
    protected = FileChange(path=".git/config", status="modified", state="protected", reason="it runs by itself")
    journal.append(ChangesCollected(run_id="run-1", session_id="ses-1", at=run.at, changes=(protected,)))
    said = prints("apply", "last")
    assert said == f"run-1 in {project}:\napplied: a.txt, b.txt\nprotected, and never written: .git/config\n"
    assert not (project / ".git").exists()
