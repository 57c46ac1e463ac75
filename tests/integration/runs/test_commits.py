"""Commits that a run makes in a real box, by real git, and their way into the person's repository and back."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import CannotUndo, CommitsRefused, NotThisTime, UnknownName
from kagura_kernel.domain.settings import Settings, WriteMode
from kagura_kernel.runs import commits as runs_commits
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.docker_images import BASE
from tests.support.repositories import Committing, Repository, new_repository, subjects

TWO = "echo two >> a.txt; git commit -qam second; echo new > b.txt; git add b.txt; git commit -qm third"


@pytest.fixture
def repository(project: Path) -> Repository:
    return new_repository(project)


@pytest.fixture
def committing(tmp_path: Path, repository: Repository) -> Iterator[Committing]:
    cockpit = fake_cockpit(tmp_path / "home", backend=BubblewrapBackend())
    yield Committing(cockpit, repository)
    cockpit.close()


def test_commits_are_told_and_the_repository_stays_as_it_was(committing):
    before = committing.repository.state()
    run = committing.run(f"{TWO}; git commit -q --amend -m 'third, amended'; git checkout -qb side; git status --short")
    assert (run.status, run.text) == ("done", "")
    branches = committing.branches(run)
    told = ["second", "third, amended"]
    assert {name: subjects(branch) for name, branch in branches.items()} == {"main": told, "side": told}
    first, second = branches["main"].commits
    assert first.author == "kagura agent <agent@kagura.invalid>"
    assert [(one.path, one.status) for one in (*first.files, *second.files)] == [
        ("a.txt", "modified"),
        ("b.txt", "added"),
    ]
    assert first.files[0].diff.endswith("@@ -1 +1,2 @@\n one\n+two\n")
    assert committing.repository.state() == before


def test_a_fast_forward_takes_branch_index_and_files_along_and_undo_brings_them_back(repository, committing):
    at = repository.git("rev-parse", "HEAD")
    run = committing.run(TWO)
    committing.settle("apply", run)
    assert (repository.subjects, repository.status) == (["third", "second", "first"], "")
    assert repository.git("rev-parse", "main") == committing.branches(run)["main"].head
    assert repository.git("reflog", "-1", "--format=%gs") == f"kagura: {run.run_id} applied, 2 commits"
    assert committing.states(run) == {"a.txt": "applied", "b.txt": "applied"}
    with pytest.raises(NotThisTime):
        committing.settle("apply", run)

    committing.settle("undo", run)
    assert (repository.git("rev-parse", "main"), repository.status) == (at, "")
    assert not (repository.folder / "b.txt").exists()
    assert committing.states(run) == {"a.txt": "proposed", "b.txt": "proposed"}
    committing.settle("apply", run)
    assert repository.subjects == ["third", "second", "first"]


def test_commits_fit_over_files_that_were_applied_before_and_leave_what_was_not_committed(repository, committing):
    run = committing.run(f"{TWO}; echo loose > loose.txt")
    committing.cockpit.changes_desk.apply(run.run_id, ["a.txt", "b.txt"], by="Ada")
    committing.settle("apply", run)
    assert (repository.subjects[0], repository.status) == ("third", "")
    assert committing.states(run) == {"a.txt": "applied", "b.txt": "applied", "loose.txt": "proposed"}


def test_what_was_changed_further_after_a_commit_is_proposed_from_there(repository, committing):
    run = committing.run(f"{TWO}; echo three >> a.txt; echo more >> b.txt")
    committing.settle("apply", run)
    (change, _) = committing.cockpit.changes(run.run_id)
    assert change.diff.endswith("@@ -1,2 +1,3 @@\n one\n two\n+three\n")
    committing.settle("undo", run)
    (change, other) = committing.cockpit.changes(run.run_id)
    assert change.diff.endswith("@@ -1 +1,3 @@\n one\n+two\n+three\n")
    assert (change.status, other.status) == ("modified", "added")
    committing.settle("apply", run)
    committing.cockpit.changes_desk.apply(run.run_id, by="Ada")
    assert (repository.subjects[0], repository.status) == ("third", "M a.txt\n M b.txt")


def test_modes_links_and_deletions_come_along(repository, committing):
    repository.commit("more", tool__sh="true\n", old__txt="old\n")
    run = committing.run("chmod +x tool.sh; git rm -q old.txt; ln -s a.txt link; git add -A; git commit -qm all")
    committing.settle("apply", run)
    assert (repository.status, (repository.folder / "link").readlink()) == ("", Path("a.txt"))
    assert (repository.folder / "tool.sh").stat().st_mode & 0o111
    committing.settle("undo", run)
    assert (repository.status, (repository.folder / "old.txt").read_text()) == ("", "old\n")


def test_a_new_branch_touches_no_file(repository, committing):
    run = committing.run("git checkout -qb side; echo s > s.txt; git add .; git commit -qm aside")
    assert list(committing.branches(run)) == ["side"]
    committing.settle("apply", run, "side")
    assert (repository.git("log", "-1", "--format=%s", "side"), repository.status) == ("aside", "")
    assert (repository.subjects, (repository.folder / "s.txt").exists()) == (["first"], False)
    committing.settle("undo", run)
    assert repository.git("branch", "--list", "side") == ""


def test_a_branch_that_moved_gets_the_same_commits_on_top(repository, committing):
    run = committing.run(TWO)
    at = repository.commit("mine", c__txt="mine\n")
    committing.settle("apply", run)
    assert (repository.subjects, repository.status) == (["third", "second", "mine", "first"], "")
    assert repository.git("log", "-1", "--format=%an") == "kagura agent"
    committing.settle("undo", run)
    assert (repository.git("rev-parse", "main"), repository.status) == (at, "")


def test_what_the_branch_has_by_now_is_not_committed_again(repository, committing):
    run = committing.run(TWO)
    repository.commit("mine", a__txt="one\ntwo\n")
    committing.settle("apply", run)
    assert (repository.subjects, repository.status) == (["third", "mine", "first"], "")


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (lambda mine: mine.commit("mine", a__txt="other\n"), "does not fit"),
        (lambda mine: mine.write("a.txt", "dirty\n"), "a.txt has changes of yours"),
        (
            lambda mine: (mine.write("a.txt", "staged\n"), mine.git("add", "a.txt"), mine.write("a.txt", "one\n")),
            "a.txt",
        ),
        (lambda mine: mine.write("b.txt", "untracked\n"), "b.txt has changes of yours"),
        (lambda mine: (mine.folder / ".git" / "MERGE_HEAD").write_text(mine.git("rev-parse", "HEAD")), "in the midst"),
        (lambda mine: mine.git("worktree", "add", "-q", "../other", "-f", "main"), ""),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(repository, committing, meanwhile, why):
    run = committing.run(TWO)
    meanwhile(repository)
    before = repository.state()
    if not why:
        repository.git("checkout", "-q", "--detach")
        why, before = "checked out in another folder", repository.state()
    with pytest.raises(CommitsRefused, match=why):
        committing.settle("apply", run)
    after = repository.state()
    assert {path: after[path] for path in before if "/objects/" not in path} == {
        path: value for path, value in before.items() if "/objects/" not in path
    }
    committing.settle("apply", run, as_branch="theirs")
    assert repository.git("log", "-1", "--format=%s", "theirs") == "third"


def test_an_undo_brings_a_file_back_where_a_folder_took_its_place(repository, committing):
    run = committing.run("rm a.txt; mkdir a.txt; echo two > a.txt/two; git add -A; git commit -qm 'a folder'")
    committing.settle("apply", run)
    assert (repository.folder / "a.txt" / "two").exists()
    committing.settle("undo", run)
    assert ((repository.folder / "a.txt").read_text(), repository.status) == ("one\n", "")


def test_an_undo_never_takes_what_came_after(repository, committing):
    run = committing.run(TWO)
    committing.settle("apply", run)
    repository.write("a.txt", "edited since\n")
    with pytest.raises(CannotUndo, match="changed since"):
        committing.settle("undo", run)
    repository.commit("mine")
    with pytest.raises(CannotUndo, match="moved since"):
        committing.settle("undo", run)
    assert repository.subjects == ["mine", "third", "second", "first"]


def test_a_detached_head_moves_as_one(repository, committing):
    at = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "--detach")
    run = committing.run(TWO)
    assert list(committing.branches(run)) == [""]
    committing.settle("apply", run)
    assert (repository.subjects[0], repository.status, repository.git("rev-parse", "main")) == ("third", "", at)
    committing.settle("undo", run)
    repository.git("checkout", "-q", "main")
    with pytest.raises(CommitsRefused, match="no branch"):
        committing.settle("apply", run)
    committing.settle("apply", run, as_branch="kept")
    assert repository.git("log", "-1", "--format=%s", "kept") == "third"


def test_a_branch_without_any_commit_begins_with_those_of_the_run(tmp_path, project):
    repository = Repository(project)
    repository.git("init", "-q", "-b", "main")
    repository.write("a.txt", "one\n")
    committing = Committing(fake_cockpit(tmp_path / "home", backend=BubblewrapBackend()), repository)
    run = committing.run("git add -A; git commit -qm root; echo two > b.txt; git add -A; git commit -qm second")
    committing.settle("apply", run)
    assert (repository.subjects, repository.status) == (["second", "root"], "")
    committing.settle("undo", run)
    assert repository.status == "?? a.txt"
    committing.cockpit.close()


def test_a_shallow_clone_and_one_that_borrows_objects_take_commits(tmp_path, project, repository):
    repository.commit("more", c__txt="c\n")
    for number, how in enumerate((("--depth", "1", f"file://{project}"), ("--shared", str(project)))):
        place = project.parent / f"clone{number}"
        repository.git("clone", "-q", *how, str(place))
        committing = Committing(
            fake_cockpit(tmp_path / f"home{number}", backend=BubblewrapBackend()), Repository(place)
        )
        run = committing.run(TWO)
        if number == 0:
            committing.settle("apply", run)
            assert (committing.repository.subjects, committing.repository.status) == (["third", "second", "more"], "")
        else:
            # What it borrows lies outside of the project: the box cannot see it, and so nobody commits there.
            assert committing.branches(run) == {}
        committing.cockpit.close()


def test_a_repository_that_lies_elsewhere_or_around_is_none_of_the_box(tmp_path, project, repository):
    repository.write("inner/x.txt", "x\n")
    repository.commit("inner")
    repository.git("worktree", "add", "-q", "../tree")
    for number, place in enumerate((project / "inner", project.parent / "tree")):
        committing = Committing(
            fake_cockpit(tmp_path / f"home{number}", backend=BubblewrapBackend()), Repository(place)
        )
        run = committing.run("echo more >> x.txt; git add -A && git commit -qm no || true")
        assert (run.status, committing.branches(run), committing.notes(run)) == ("done", {}, "")
        assert "x.txt" in committing.states(run)
        committing.cockpit.close()


def test_a_box_without_git_commits_nothing(tmp_path, repository):
    tools = repository.folder / "tools"
    tools.mkdir()
    for name in ("bash", "sh"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    cockpit = fake_cockpit(
        tmp_path / "home", backend=BubblewrapBackend(), settings=Settings(env={"PATH": "/workspace/tools"})
    )
    committing = Committing(cockpit, repository)
    run = committing.run("git commit || echo two > a.txt")
    assert (run.status, committing.branches(run), committing.notes(run)) == ("done", {}, "")
    assert committing.states(run)["a.txt"] == "proposed"
    cockpit.close()


def test_a_box_that_stays_tells_each_commit_once_and_is_not_moved_from_outside(tmp_path, repository):
    cockpit = fake_cockpit(tmp_path / "home", backend=BubblewrapBackend(), settings=Settings(keep=True))
    committing = Committing(cockpit, repository)
    first = committing.run("git config user.name other; echo two >> a.txt; git commit -qam second")
    repository.commit("mine", c__txt="mine\n")
    second = committing.run("git log --format=%s; echo d > d.txt; git add d.txt; git commit -qm third")
    third = committing.run("git log -1 --format=%s,%an")
    assert (second.text, third.text, committing.branches(third)) == ("second\nfirst\n", "third,other\n", {})
    assert subjects(committing.branches(second)["main"]) == ["second", "third"]
    committing.settle("apply", first)
    assert repository.subjects == ["second", "mine", "first"]
    cockpit.close()


def test_of_several_who_apply_at_once_one_does(repository, committing):
    run = committing.run("for i in $(seq 60); do echo new > f$i; done; git add -A; git commit -qm second")

    def settle(_number: int) -> str:
        try:
            return str(committing.settle("apply", run).branches[0].state)
        except (CommitsRefused, NotThisTime):
            return "refused"

    with ThreadPoolExecutor(3) as several:
        assert sorted(several.map(settle, range(3))) == ["applied", "refused", "refused"]
    assert (repository.subjects, repository.status) == (["second", "first"], "")


def test_what_is_only_shown_cannot_be_applied(committing):
    run = committing.run(TWO, write_mode=WriteMode.NONE)
    assert (committing.branches(run)["main"].state, subjects(committing.branches(run)["main"])) == (
        "discarded",
        ["second", "third"],
    )
    with pytest.raises(NotThisTime):
        committing.settle("apply", run)
    other = committing.run(TWO)
    committing.settle("discard", other)
    with pytest.raises(NotThisTime):
        committing.settle("apply", other)
    with pytest.raises(UnknownName):
        committing.settle("apply", other, "no-such-branch")


def test_too_many_bytes_stay_in_the_box(committing, monkeypatch):
    monkeypatch.setattr(runs_commits, "MAX_BUNDLE", 2000)
    run = committing.run("head -c 9000 /dev/urandom > big; git add big; git commit -qm big")
    assert (run.status, committing.branches(run)) == ("done", {})
    assert "could not be brought out" in committing.notes(run)
    assert committing.states(run) == {"big": "proposed"}


def test_a_submodule_stays_where_it_is(repository, committing):
    run = committing.run(
        "git init -q sub; cd sub; git config user.name x; git config user.email x@x; echo x > x; git add x;"
        " git commit -qm inner; cd ..; git add sub 2>/dev/null; git commit -qm outer"
    )
    with pytest.raises(CommitsRefused, match="submodule"):
        committing.settle("apply", run)
    assert repository.subjects == ["first"]


def test_a_submodule_that_stays_as_it_is_is_in_nobodys_way(repository, committing):
    inner = Repository(repository.folder / "inner")
    inner.folder.mkdir()
    inner.git("init", "-q")
    inner.commit("inner", x__txt="x\n")
    repository.commit("with a submodule")
    run = committing.run(f"{TWO}; git branch side")
    committing.settle("apply", run)
    assert (repository.subjects[0], repository.status) == ("third", "")
    assert repository.git("log", "-1", "--format=%s", "side") == "third"


@pytest.mark.docker
@pytest.mark.timeout(600)  # whoever comes first builds the images
def test_likewise_in_a_container(tmp_path, repository, docker_endpoint):
    backend = DockerBackend(docker_endpoint, default_image=BASE)
    committing = Committing(fake_cockpit(tmp_path / "home", backend=backend), repository)
    run = committing.run(TWO)
    committing.settle("apply", run)
    assert (repository.subjects, repository.status) == (["third", "second", "first"], "")
    committing.cockpit.close()
    shutil.rmtree(repository.folder / ".git")
