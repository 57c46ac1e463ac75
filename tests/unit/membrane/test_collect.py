import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import WorkspaceTooLarge
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.change_apply import WrittenBack, apply_changes
from kagura_kernel.membrane.changes import MAX_DIFF_BYTES, MAX_GLANCES, MAX_RUN_DIFF_BYTES, Collector, Ours, size_of
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.sandbox.backend import Box, BoxChange, BoxSpec
from kagura_kernel.sandbox.files import BoxFiles
from kagura_kernel.testing.box import FakeBackend


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "data.csv").write_text("a,b\n1,2\n")
    (project / "src" / "tool.sh").write_text("#!/bin/sh\n")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[core]\n")
    past = time.time() - 3600
    for path in project.rglob("*"):
        os.utime(path, (past, past))
    return project


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
async def box(project: Path) -> AsyncIterator[Box]:
    backend = FakeBackend()
    yield await backend.start(BoxSpec(project))
    await backend.close()


class Collected:
    """Runs a line in a box and collects what it changed."""

    def __init__(self, project: Path, blobs: BlobStore, box: Box) -> None:
        self.project, self.blobs, self.box = ProjectFiles(project), blobs, box
        self.since = time.time()

    def collector(self, limit: int) -> Collector:
        return Collector(self.project, self.blobs, since=self.since, protected=(".git", ".kagura"), limit_bytes=limit)

    async def after(self, line: str, *, limit: int = 2**20, ours: Ours | None = None) -> list[FileChange]:
        result = await self.box.run(shell_command(line))
        assert result.ok, result.stderr.text
        return await self.collector(limit).collect(self.box, ours or {})

    def apply(self, changes: list[FileChange]) -> WrittenBack:
        return apply_changes(self.project, self.blobs, changes)


@pytest.fixture
def collected(project: Path, blobs: BlobStore, box: Box) -> Collected:
    return Collected(project, blobs, box)


async def test_added_modified_and_deleted_files_are_told_with_their_diffs(collected: Collected) -> None:
    changes = await collected.after("echo 3,4 >> data.csv; echo new > src/new.txt; rm src/tool.sh")
    assert [(c.path, c.status, c.state) for c in changes] == [
        ("data.csv", "modified", "proposed"),
        ("src/new.txt", "added", "proposed"),
        ("src/tool.sh", "deleted", "proposed"),
    ]
    assert "+3,4" in changes[0].diff
    assert "+new" in changes[1].diff
    assert "-#!/bin/sh" in changes[2].diff


async def test_a_file_that_was_rewritten_as_it_was_is_no_change(collected: Collected) -> None:
    assert await collected.after("cp data.csv x; mv x data.csv; touch src/tool.sh") == []


async def test_becoming_a_program_is_a_change_and_other_permissions_are_not(
    collected: Collected, project: Path
) -> None:
    changes = await collected.after("chmod 755 src/tool.sh; chmod 600 data.csv")
    assert [change.path for change in changes] == ["src/tool.sh"]
    collected.apply(changes)
    assert (project / "src/tool.sh").stat().st_mode & 0o111
    assert (project / "data.csv").stat().st_mode & 0o777 == 0o644


async def test_binary_files_have_no_diff_and_arrive_whole(collected: Collected, project: Path) -> None:
    changes = await collected.after("head -c 300000 /dev/urandom > blob.bin; sha256sum blob.bin > sum.txt")
    by_path = {change.path: change for change in changes}
    assert by_path["blob.bin"].binary
    assert not by_path["blob.bin"].diff
    collected.apply(changes)
    assert (project / "sum.txt").read_text().split()[0] == by_path["blob.bin"].new_sha256
    assert (project / "blob.bin").stat().st_size == 300_000


async def test_what_the_project_protects_is_never_changed(collected: Collected, project: Path) -> None:
    changes = await collected.after(
        "mkdir -p .kagura; echo x > .kagura/y; echo evil >> .git/config 2>/dev/null || true"
    )
    assert [change.path for change in changes] == []
    assert (project / ".git" / "config").read_text() == "[core]\n"


async def test_a_link_that_leads_out_is_told_and_never_applied(collected: Collected, project: Path) -> None:
    changes = await collected.after("ln -s /etc/passwd out; ln -s ../../x up; ln -s data.csv in")
    assert {c.path: c.state for c in changes} == {"in": "proposed", "out": "protected", "up": "protected"}
    done = collected.apply(changes)
    assert done.applied == ("in",)
    assert (project / "in").readlink() == Path("data.csv")
    assert not (project / "out").is_symlink()


async def test_where_nothing_says_which_packages_there_are_such_modules_wait(collected: Collected) -> None:
    collector = collected.collector(2**20)
    await collected.box.run(shell_command("touch src/__init__.py"))
    collected.apply(await collector.collect(collected.box, {}))
    await collected.box.run(shell_command("touch src/runpy.py"))
    (change,) = [one for one in await collector.collect(collected.box, {}) if one.path == "src/runpy.py"]
    assert change.runs


async def test_a_file_that_changed_in_the_project_meanwhile_is_a_conflict(collected: Collected, project: Path) -> None:
    # A file's time is the kernel's last tick, which may lie before the moment at which the run began.
    await asyncio.sleep(0.02)
    (project / "data.csv").write_text("mine\n")
    changes = await collected.after("echo theirs > data.csv")
    assert [change.state for change in changes] == ["conflict"]
    assert collected.apply(changes).conflicts == ("data.csv",)
    assert (project / "data.csv").read_text() == "mine\n"


async def test_a_conflict_knows_what_the_run_began_with_where_its_change_was_seen_before(
    collected: Collected, project: Path, blobs: BlobStore
) -> None:
    before = (project / "data.csv").read_bytes()
    collector = collected.collector(2**20)
    await collected.box.run(shell_command("echo theirs > data.csv"))
    await collector.collect(collected.box, {})
    (project / "data.csv").write_text("mine\n")
    (project / "src" / "tool.sh").write_text("mine\n")
    await collected.box.run(shell_command("echo more >> data.csv; echo theirs > src/tool.sh"))
    seen, unseen = await collector.collect(collected.box, {})
    assert (seen.state, unseen.state) == ("conflict", "conflict")
    assert blobs.get(seen.base_sha256) == before
    assert unseen.base_sha256 == "?"


async def test_what_the_run_itself_put_there_is_no_conflict(collected: Collected, project: Path) -> None:
    first = await collected.after("echo one > data.csv")
    collected.apply(first)
    second = await collected.after("echo two > data.csv", ours={"data.csv": [first[0].new_sha256]})
    assert [change.state for change in second] == ["proposed"]
    collected.apply(second)
    assert (project / "data.csv").read_text() == "two\n"


async def test_a_change_made_after_collecting_is_a_conflict_when_applied(collected: Collected, project: Path) -> None:
    changes = await collected.after("echo theirs > data.csv")
    (project / "data.csv").write_text("mine\n")
    assert collected.apply(changes) == WrittenBack((), ("data.csv",))
    assert (project / "data.csv").read_text() == "mine\n"


async def test_a_directory_swapped_for_a_link_is_not_followed_when_applied(
    collected: Collected, project: Path, tmp_path: Path
) -> None:
    changes = await collected.after("echo new > src/new.txt")
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "src" / "tool.sh").unlink()
    (project / "src").rmdir()
    (project / "src").symlink_to(outside)
    assert collected.apply(changes).conflicts == ("src/new.txt",)
    assert list(outside.iterdir()) == []


async def test_a_directory_where_a_file_should_go_is_left_alone(collected: Collected, project: Path) -> None:
    changes = await collected.after("echo new > thing")
    (project / "thing").mkdir()
    assert collected.apply(changes).conflicts == ("thing",)
    assert (project / "thing").is_dir()


async def test_a_content_that_is_gone_is_a_conflict(collected: Collected, blobs: BlobStore, project: Path) -> None:
    changes = await collected.after("echo new > thing")
    blobs.prune(older_than_days=-1)
    assert collected.apply(changes).conflicts == ("thing",)
    assert not (project / "thing").exists()


async def test_more_than_the_limit_is_refused_as_a_whole(collected: Collected) -> None:
    with pytest.raises(WorkspaceTooLarge):
        await collected.after("head -c 70000 /dev/zero > a; head -c 70000 /dev/zero > b", limit=100_000)


async def test_paths_a_hostile_box_makes_up_are_dropped(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lies() -> list[BoxChange]:
        return [BoxChange(path, "deleted") for path in ("../outside", "/etc/passwd", "a/../../b", "", "data.csv")]

    monkeypatch.setattr(collected.box, "changes", lies, raising=False)
    assert [change.path for change in await collected.after("true")] == ["data.csv"]


async def test_names_of_any_alphabet_and_with_blanks_arrive(collected: Collected, project: Path) -> None:
    changes = await collected.after("echo x > 'a b c.txt'; echo y > 神楽.md")
    assert sorted(change.path for change in changes) == ["a b c.txt", "神楽.md"]
    collected.apply(changes)
    assert (project / "神楽.md").read_text() == "y\n"


async def states(collected: Collected, line: str) -> dict[str, str]:
    return {change.path: change.state for change in await collected.after(line)}


async def test_names_that_could_pose_as_lines_are_told_and_never_applied(collected: Collected) -> None:
    changes = await collected.after("echo x > \"$(printf 'a\\nb')\"; echo x > \"$(printf 'a\\tb')\"")
    assert {change.path: change.state for change in changes} == {"a\nb": "protected", "a\tb": "protected"}
    assert all("\t" not in change.diff for change in changes)
    assert collected.apply(changes).applied == ()


async def test_repositories_and_their_disguises_are_protected(collected: Collected) -> None:
    line = (
        "mkdir -p docs/.git/hooks .GIT .Kagura 'git~1' bare/refs; echo x | tee docs/.git/config docs/.git/hooks/post "
        ".GIT/config .Kagura/z 'git~1/config' .envrc bare/HEAD bare/config bare/refs/x; echo free > docs/a.txt"
    )
    found = await states(collected, line)
    assert found.pop("docs/a.txt") == "proposed"
    assert len(found) == 9
    assert set(found.values()) == {"protected"}


async def test_an_environment_made_in_the_box_is_protected(collected: Collected) -> None:
    line = "mkdir -p .venv/bin; echo x > .venv/bin/bash; echo x > .venv/pyvenv.cfg; echo y > main.py"
    assert await states(collected, line) == {
        ".venv/bin/bash": "protected",
        ".venv/pyvenv.cfg": "protected",
        "main.py": "proposed",
    }


async def test_links_that_lead_out_by_way_of_each_other_are_protected(collected: Collected) -> None:
    line = "mkdir d; ln -s .. d/up; ln -s d/up/../secret esc; ln -s d/up/.. grand; ln -s d/up/x over"
    changes = await collected.after(line)
    assert {c.path: c.state for c in changes} == {
        "d/up": "proposed",
        "esc": "protected",
        "grand": "protected",
        "over": "protected",
    }
    assert collected.apply(changes).applied == ("d/up",)
    # And in a second run, when the first link stands in the project.
    assert (await states(collected, "ln -s d/up/data.csv again"))["again"] == "protected"


async def test_a_file_that_grows_after_it_was_told_costs_only_itself(
    collected: Collected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = collected.box.changes

    async def then_grown() -> list[BoxChange]:
        told = await real()
        await collected.box.run(shell_command("for n in 1 2 3; do head -c 900000 /dev/urandom > z$n; done"))
        return told

    monkeypatch.setattr(collected.box, "changes", then_grown, raising=False)
    changes = await collected.after("touch z1 z2 z3; echo whole > a")
    assert [(c.path, c.state) for c in changes] == [
        ("a", "proposed"),
        ("z1", "protected"),
        ("z2", "protected"),
        ("z3", "protected"),
    ]
    assert "EFBIG" in changes[1].diff
    assert sum(path.stat().st_size for path in (tmp_path / "blobs").rglob("*") if path.is_file()) == 6


async def test_the_limit_holds_for_the_whole_run_and_not_for_each_collection(collected: Collected) -> None:
    collector = collected.collector(100_000)
    for _ in range(2):
        await collected.box.run(shell_command("head -c 40000 /dev/urandom > a"))
        await collector.collect(collected.box, {})
    await collected.box.run(shell_command("head -c 40000 /dev/urandom > a"))
    with pytest.raises(WorkspaceTooLarge):
        await collector.collect(collected.box, {})


async def test_diffs_are_bounded_by_file_and_by_run_and_say_so(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kagura_kernel.membrane.changes.MAX_RUN_DIFF_BYTES", MAX_DIFF_BYTES * 4)
    changes = await collected.after("for n in 1 2 3 4 5 6; do yes 'a line of some length' | head -n 1800 > f$n; done")
    assert all(size_of(change.diff) <= MAX_DIFF_BYTES for change in changes)
    assert sum(size_of(change.diff) for change in changes) < MAX_DIFF_BYTES * 4
    assert changes[0].diff.endswith("this is not all\n")
    assert changes[-1].diff.startswith("… no diff is shown")
    assert (MAX_DIFF_BYTES, MAX_RUN_DIFF_BYTES) == (32 * 1024, 4 * 2**20)


async def test_a_diff_that_was_told_before_costs_no_room_again(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kagura_kernel.membrane.changes.MAX_RUN_DIFF_BYTES", MAX_DIFF_BYTES * 2)
    await collected.box.run(shell_command("seq 9000 > a"))
    collector = collected.collector(2**20)
    assert len({(await collector.collect(collected.box, {}))[0].diff for _ in range(4)}) == 1


async def test_the_time_for_diffs_is_bounded_too(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagura_kernel.membrane.changes.MAX_RUN_DIFF_SECONDS", 1e-6)
    first, second = await collected.after("seq 2000 > a; seq 2000 > b")
    assert first.diff.startswith("--- a/a\n")
    assert second.diff.startswith("… no diff is shown")


async def test_comparing_does_not_hold_the_loop_up(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def seen(*_: object, **__: object) -> str:
        threads.append(threading.current_thread())
        return ""

    monkeypatch.setattr("kagura_kernel.membrane.changes.unified_diff", seen)
    await collected.after("seq 5000 > new; seq 5000 >> data.csv")
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_a_small_file_takes_one_question(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    read = BoxFiles.read

    async def counted(self: BoxFiles, path: str, **where: int) -> bytes:
        asked.append(path)
        return await read(self, path, **where)

    monkeypatch.setattr(BoxFiles, "read", counted)
    await collected.after("for n in 1 2 3; do echo $n > f$n; done; : > empty")
    assert asked == ["empty", "f1", "f2", "f3"]


async def test_a_large_environment_is_told_without_being_read(collected: Collected, tmp_path: Path) -> None:
    line = f"mkdir .venv; touch .venv/pyvenv.cfg; for n in $(seq {MAX_GLANCES + 20}); do echo $n > .venv/f$n; done"
    changes = await collected.after(f"{line}; head -c 300000 /dev/zero > .venv/big", limit=100_000)
    assert {change.state for change in changes} == {"protected"}
    assert len(changes) == MAX_GLANCES + 22
    unread = [change for change in changes if "left in the box" in change.diff]
    assert ".venv/big" in [change.path for change in unread]
    assert len(unread) == 22
    assert len([path for path in (tmp_path / "blobs").glob("*/*") if path.is_file()]) <= MAX_GLANCES
