"""What was applied is taken back while it still is what was applied, in any process, and waits again."""

import subprocess
from pathlib import Path

import pytest

from kagura_kernel.cockpit.change_desk import ChangeDesk
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import CannotUndo, NotThisTime, UnknownName
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask

SCRIPT = "echo 3,4 >> data.csv; mkdir out; echo hi > out/new.txt; rm gone.txt; chmod +x run.sh; ln -sf data.csv link"


@pytest.fixture
def project(project: Path) -> Path:
    (project / "gone.txt").write_text("here\n")
    (project / "run.sh").write_text("echo\n")
    (project / "link").symlink_to("gone.txt")
    return project


def changed(cockpit_with, project: Path, command: str = SCRIPT, **options: object) -> tuple[Cockpit, str]:
    cockpit = cockpit_with([Ask("bash", {"command": command}), "Done."])
    request = RunRequest(task="do it", project=project, **options)  # type: ignore[arg-type]
    return cockpit, cockpit.launch(request).result(60).run_id


def contents(project: Path) -> dict[str, object]:
    """All that lies there: the target of a link; of a file its text and whether it can be run."""
    return {
        str(path.relative_to(project)): str(path.readlink())
        if path.is_symlink()
        else path.is_file() and (path.read_text(), bool(path.stat().st_mode & 0o100))
        for path in project.rglob("*")
    }


def states(cockpit: Cockpit | ChangeDesk, run_id: str) -> set[str]:
    return {change.state for change in cockpit.changes(run_id)}


def test_all_that_was_applied_comes_back_and_can_be_applied_again(cockpit_with, project):
    cockpit, run_id = changed(cockpit_with, project)
    before = contents(project)
    paths = set(cockpit.changes_desk.apply(run_id, by="ann").applied)
    after = contents(project)
    assert {"gone.txt", "out", "out/new.txt"} == before.keys() ^ after.keys()
    # Another process, which knows the journal and the contents alone.
    desk = ChangeDesk(cockpit.journal, BlobStore(project.parent / "home" / "blobs"), SystemClock())
    assert set(desk.undo(run_id, None, by="ann").undone) == paths
    assert contents(project) == before
    assert states(desk, run_id) == {"proposed"}
    cockpit.changes_desk.apply(run_id, by="ann")
    assert contents(project) == after
    cockpit.changes_desk.undo(run_id, ["out/"], by="ann")
    assert not (project / "out").exists()
    assert {one.path for one in cockpit.changes(run_id) if one.state == "proposed"} == {"out/new.txt"}


def test_a_file_that_changed_since_is_left_as_it_is_and_so_are_the_others(cockpit_with, project):
    cockpit, run_id = changed(cockpit_with, project)
    cockpit.changes_desk.apply(run_id, by="ann")
    (project / "data.csv").write_text("mine\n")
    before = contents(project)
    for paths in (None, ["data.csv"]):
        with pytest.raises(CannotUndo, match=r"data\.csv cannot be taken back: it has changed since"):
            cockpit.changes_desk.undo(run_id, paths, by="ann")
    assert contents(project) == before
    assert states(cockpit, run_id) == {"applied"}
    assert cockpit.changes_desk.stuck(run_id) == {"data.csv": "it has changed since it was applied"}


@pytest.mark.parametrize("place", ["link in the way", "link to it", "folder"])
def test_what_stands_in_the_way_is_not_followed(cockpit_with, project, place):
    cockpit, run_id = changed(cockpit_with, project, "mkdir out; echo hi > out/new.txt")
    cockpit.changes_desk.apply(run_id, by="ann")
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "new.txt").write_text("hi\n")
    (project / "out" / "new.txt").unlink()
    if place == "link in the way":
        (project / "out").rmdir()
        (project / "out").symlink_to(elsewhere)
    elif place == "link to it":
        (project / "out" / "new.txt").symlink_to(elsewhere / "new.txt")
    else:
        (project / "out" / "new.txt").mkdir()
    with pytest.raises(CannotUndo):
        cockpit.changes_desk.undo(run_id, None, by="ann")
    assert (elsewhere / "new.txt").read_text() == "hi\n"
    assert (project / "out").exists()


def test_a_file_comes_back_where_a_folder_took_its_place_while_nobody_else_has_put_anything_there(
    cockpit_with, project
):
    command = "echo a > a.txt; rm gone.txt link; mkdir gone.txt link; echo 1 > gone.txt/one; echo 2 > link/two"
    cockpit, run_id = changed(cockpit_with, project, command)
    before = contents(project)
    cockpit.changes_desk.apply(run_id, by="ann")
    after = contents(project)
    cockpit.changes_desk.undo(run_id, None, by="ann")
    assert contents(project) == before
    cockpit.changes_desk.apply(run_id, by="ann")
    assert contents(project) == after
    for mine in (project / "gone.txt" / "mine", project / "link" / "mine"):
        mine.mkdir() if mine.parent.name == "link" else mine.write_text("mine\n")
        with pytest.raises(CannotUndo, match=f"{mine.parent.name}/mine stands there by now"):
            cockpit.changes_desk.undo(run_id, None, by="ann")
        mine.rmdir() if mine.is_dir() else mine.unlink()
    assert contents(project) == after


def test_nothing_is_taken_back_where_a_file_stands_in_place_of_a_folder_that_is_to_return(cockpit_with, project):
    (project / "out").mkdir()
    (project / "out" / "old.txt").write_text("old\n")
    cockpit, run_id = changed(cockpit_with, project, "rm out/old.txt; echo z > z.txt")
    cockpit.changes_desk.apply(run_id, by="ann")
    (project / "out").write_text("mine\n")
    before = contents(project)
    with pytest.raises(CannotUndo, match="out stands there by now"):
        cockpit.changes_desk.undo(run_id, None, by="ann")
    assert contents(project) == before


def test_there_is_nothing_to_take_back_before_anything_is_applied_nor_twice(cockpit_with, project):
    cockpit, run_id = changed(cockpit_with, project)
    with pytest.raises(NotThisTime):
        cockpit.changes_desk.undo(run_id, None, by="ann")
    cockpit.changes_desk.apply(run_id, ["data.csv"], by="ann")
    cockpit.changes_desk.undo(run_id, ["data.csv"], by="ann")
    with pytest.raises(UnknownName):
        cockpit.changes_desk.undo(run_id, ["data.csv"], by="ann")


def test_what_is_kept_no_more_cannot_come_back(cockpit_with, project):
    cockpit, run_id = changed(cockpit_with, project)
    cockpit.changes_desk.apply(run_id, by="ann")
    BlobStore(project.parent / "home" / "blobs").prune(older_than_days=-1)
    with pytest.raises(CannotUndo, match="kept no more"):
        cockpit.changes_desk.undo(run_id, ["data.csv"], by="ann")
    # What was new needs nothing that was kept.
    cockpit.changes_desk.undo(run_id, ["out/new.txt"], by="ann")
    assert not (project / "out").exists()


def test_what_was_written_through_comes_back_write_by_write(cockpit_with, project):
    script = [Ask("bash", {"command": f"echo {word} >> data.csv"}) for word in ("one", "two")]
    cockpit = cockpit_with([*script, "Done."])
    before = (project / "data.csv").read_text()
    run_id = cockpit.launch(RunRequest(task="do it", project=project, write_mode=WriteMode.THROUGH)).result(60).run_id
    cockpit.changes_desk.undo(run_id, None, by="ann")
    assert (project / "data.csv").read_text() == f"{before}one\n"
    assert states(cockpit, run_id) == {"proposed"}
    cockpit.changes_desk.undo(run_id, None, by="ann")
    assert (project / "data.csv").read_text() == before
    # What is proposed last was made from what is not there any more.
    assert states(cockpit, run_id) == {"conflict"}


def test_what_git_runs_since_the_run_began_is_left_out_and_told(cockpit_with, project):
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    cockpit, run_id = changed(cockpit_with, project, "mkdir tools; echo x > tools/pre-commit; echo 3,4 >> data.csv")
    subprocess.run(["git", "-C", str(project), "config", "core.hooksPath", "tools"], check=True)
    assert cockpit.changes_desk.apply(run_id, by="ann").applied == ("data.csv",)
    assert not (project / "tools").exists()
    for paths in (None, ["tools/pre-commit"]):
        with pytest.raises(NotThisTime, match="tools/pre-commit was not applied: git runs it"):
            cockpit.changes_desk.apply(run_id, paths, by="ann")
    subprocess.run(["git", "-C", str(project), "config", "--unset", "core.hooksPath"], check=True)
    assert cockpit.changes_desk.apply(run_id, by="ann").applied == ("tools/pre-commit",)
