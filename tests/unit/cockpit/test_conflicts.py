"""A file that a person and a run have both changed: both sides are shown, and one of them or both are taken."""

import hashlib
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import ChangeConflict, MergeOverlaps, NotThisTime, UsageError
from kagura_kernel.domain.outcome import BothSides, Resolution
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask

BASE = "".join(f"{number}\n" for number in range(20))
THEIRS = BASE.replace("2\n", "theirs\n", 1)
FAR = BASE.replace("15\n", "mine\n")
NEAR = BASE.replace("2\n", "mine\n", 1)


class Conflict:
    """One file, changed by a run and by a person."""

    def __init__(self, cockpit_with, project: Path, mine: str | None, *, meanwhile: bool = False, theirs: str = THEIRS):
        self.file = project / "a.txt"
        self.file.write_text(BASE)

        def change(_: object) -> str:
            if meanwhile:
                self.save(mine)
            return "Done."

        ask = (
            Ask("write_file", {"path": "a.txt", "content": theirs}) if theirs else Ask("bash", {"command": "rm a.txt"})
        )
        self.cockpit: Cockpit = cockpit_with([ask, change])
        self.run_id = self.cockpit.launch(RunRequest(task="do it", project=project)).result(60).run_id
        if not meanwhile:
            self.save(mine)
            with pytest.raises(ChangeConflict):
                self.cockpit.changes_desk.apply(self.run_id, by="ann")

    def save(self, text: str | None) -> None:
        if text is None:
            self.file.unlink()
        else:
            self.file.write_text(text)

    @property
    def sides(self) -> BothSides:
        return self.cockpit.changes_desk.both_sides(self.run_id)["a.txt"]

    @property
    def state(self) -> str:
        return self.cockpit.changes(self.run_id)[0].state

    def resolve(self, how: Resolution, of: str = "") -> str:
        self.cockpit.changes_desk.settle("apply", self.run_id, ["a.txt"], by="ann", conflict=how, of=of)
        return self.file.read_text()

    def undo(self) -> str:
        self.cockpit.changes_desk.undo(self.run_id, None, by="ann")
        return self.file.read_text()


def test_both_sides_are_shown_against_what_the_run_began_with(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, FAR)
    assert conflict.state == "conflict"
    both = conflict.sides
    assert "-15\n+mine\n" in both.yours
    assert "-2\n+theirs\n" in both.theirs
    assert "mine" not in both.theirs
    assert (both.can_merge, both.overlaps) == (True, False)


def test_where_nobody_knows_what_the_run_began_with_one_side_is_taken(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, FAR, meanwhile=True)
    both = conflict.sides
    assert (both.yours, both.can_merge, "not known" in both.why) == ("", False, True)
    assert "-mine\n+15\n" in both.theirs
    with pytest.raises(NotThisTime, match="not known"):
        conflict.resolve("merge")
    assert conflict.resolve("theirs", both.seen) == THEIRS


def test_what_does_not_overlap_is_merged_and_taken_back(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, FAR)
    assert conflict.resolve("merge") == BASE.replace("2\n", "theirs\n", 1).replace("15\n", "mine\n")
    assert conflict.state == "applied"
    assert conflict.undo() == FAR
    assert conflict.state == "conflict"
    assert conflict.resolve("theirs") == THEIRS
    assert conflict.undo() == FAR


def test_markers_are_written_for_whoever_asks_for_them_alone(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, NEAR)
    assert (conflict.sides.can_merge, conflict.sides.overlaps) == (True, True)
    with pytest.raises(MergeOverlaps):
        conflict.resolve("merge")
    assert conflict.file.read_text() == NEAR
    both = "<<<<<<< the project\nmine\n=======\ntheirs\n>>>>>>> the run\n"
    assert both in conflict.resolve("markers")


def test_the_projects_is_kept_by_discarding(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, NEAR)
    conflict.cockpit.changes_desk.discard(conflict.run_id, ["a.txt"], by="ann")
    assert (conflict.file.read_text(), conflict.state) == (NEAR, "discarded")


def test_a_conflict_is_not_given_up_with_all_else_and_whoever_tries_is_told(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, NEAR)
    with pytest.raises(ChangeConflict, match=r"a\.txt"):
        conflict.cockpit.changes_desk.discard(conflict.run_id, by="ann")
    assert conflict.state == "conflict"


def test_a_conflict_that_stays_when_all_else_is_given_up_is_told(cockpit_with, project):
    written = [Ask("write_file", {"path": name, "content": THEIRS}) for name in ("a.txt", "b.txt")]
    cockpit = cockpit_with([*written, "Done."])
    run_id = cockpit.launch(RunRequest(task="do it", project=project)).result(60).run_id
    (project / "a.txt").write_text(NEAR)
    with pytest.raises(ChangeConflict):
        cockpit.changes_desk.apply(run_id, ["a.txt"], by="ann")
    settled = cockpit.changes_desk.discard(run_id, by="ann")
    assert (settled.discarded, settled.conflicts) == (("b.txt",), ("a.txt",))
    assert {change.path: change.state for change in cockpit.changes(run_id)} == {
        "a.txt": "conflict",
        "b.txt": "discarded",
    }


def test_what_was_saved_since_it_was_shown_is_not_overwritten(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, FAR)
    seen = conflict.sides.seen
    conflict.save("newer\n")
    for how in ("theirs", "merge"):
        with pytest.raises(NotThisTime, match="saved since"):
            conflict.resolve(how, seen)
    assert conflict.file.read_text() == "newer\n"


def test_what_one_side_deleted_is_taken_whole_or_not_at_all(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, None)
    assert not conflict.sides.can_merge
    with pytest.raises(NotThisTime, match="deleted on one side"):
        conflict.cockpit.changes_desk.resolve(conflict.run_id, "a.txt", "merge", by="ann")
    assert conflict.resolve("theirs") == THEIRS
    conflict.cockpit.changes_desk.undo(conflict.run_id, None, by="ann")
    assert not conflict.file.exists()


def test_a_deletion_that_is_taken_comes_back(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, NEAR, theirs="")
    conflict.cockpit.changes_desk.resolve(conflict.run_id, "a.txt", "theirs", by="ann")
    assert not conflict.file.exists()
    assert conflict.undo() == NEAR


@pytest.mark.parametrize("mine", ["link", "protected"])
def test_what_apply_refuses_no_way_out_of_a_conflict_brings_in(cockpit_with, project, mine):
    conflict = Conflict(cockpit_with, project, FAR)
    elsewhere = project.parent / "elsewhere.txt"
    elsewhere.write_text("safe\n")
    if mine == "link":
        conflict.file.unlink()
        conflict.file.symlink_to(elsewhere)
        conflict.resolve("theirs")
        # The link is what gives way, never what it leads to.
        assert not conflict.file.is_symlink()
    else:
        # As if somebody had made a repository without a work tree of the folder meanwhile.
        for name in ("objects", "refs"):
            (project / name).mkdir()
        for name in ("HEAD", "config"):
            (project / name).write_text("")
        with pytest.raises(ChangeConflict):
            conflict.resolve("theirs")
        assert conflict.file.read_text() == FAR
    assert elsewhere.read_text() == "safe\n"


def test_only_a_conflict_is_resolved_and_only_one_file_at_a_time(cockpit_with, project):
    conflict = Conflict(cockpit_with, project, FAR)
    desk = conflict.cockpit.changes_desk
    with pytest.raises(UsageError):
        desk.settle("apply", conflict.run_id, None, by="ann", conflict="theirs")
    conflict.resolve("merge")
    conflict.undo()
    conflict.cockpit.changes_desk.discard(conflict.run_id, ["a.txt"], by="ann")
    assert desk.both_sides(conflict.run_id) == {}


def test_what_is_not_in_this_data_directory_is_no_conflict_and_waits_on(cockpit_with, project):
    (project / "a.txt").write_text(BASE)
    cockpit = cockpit_with(
        [
            Ask("write_file", {"path": "a.txt", "content": THEIRS}),
            Ask("write_file", {"path": "b.txt", "content": "new\n"}),
            "Done.",
        ]
    )
    run_id = cockpit.launch(RunRequest(task="do it", project=project)).result(60).run_id
    desk, content = cockpit.changes_desk, THEIRS.encode()
    cockpit.blobs.prune(older_than_days=-1, keep=lambda: {hashlib.sha256(b"new\n").hexdigest()})
    with pytest.raises(NotThisTime, match=r"made of a\.txt is not here"):
        desk.apply(run_id, by="ann")
    assert desk.apply(run_id, ["b.txt"], by="ann").applied == ("b.txt",)
    assert [change.state for change in desk.changes(run_id)] == ["proposed", "applied"]
    cockpit.blobs.hold(content)
    assert desk.apply(run_id, by="ann").applied == ("a.txt",)
