"""What one box's run changed lies in another box as it lay there, whatever it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import BoxFileError, WorkspaceError
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.changes import Collector
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.runs.laying import lay_changes
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.testing.box import FakeBackend

SHAPE = (
    "find . -mindepth 1 \\( -type f -o -type l \\) -printf '%P %m %l ' \\( -type f -exec sh -c "
    "'sha256sum < \"$1\"' _ {} \\; -o -printf '\\n' \\) | LC_ALL=C sort; find . -mindepth 1 -type d -printf '%P\\n' | "
    "LC_ALL=C sort"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "kept").mkdir(parents=True)
    (root / "kept" / "same.txt").write_text("as it was\n")
    (root / "text.txt").write_text("one\ntwo\n")
    (root / "gone.txt").write_text("soon gone\n")
    (root / "old" / "inner").mkdir(parents=True)
    (root / "old" / "inner" / "a.txt").write_text("a\n")
    (root / "file-then-folder").write_text("a file\n")
    (root / "folder-then-file").mkdir()
    (root / "folder-then-file" / "b.txt").write_text("b\n")
    (root / "folder-then-link").mkdir()
    (root / "folder-then-link" / "c.txt").write_text("c\n")
    (root / "link-then-file").symlink_to("text.txt")
    (root / "link-then-folder").symlink_to("kept")
    (root / "script.sh").write_text("echo hello\n")
    return root


@pytest.fixture
async def backend() -> AsyncIterator[FakeBackend]:
    made = FakeBackend()
    yield made
    await made.close()


async def changed(box: Box, line: str, project: Path, blobs: BlobStore) -> list[FileChange]:
    result = await box.run(shell_command(line))
    assert result.ok, result.stderr.text
    collector = Collector(ProjectFiles(project), blobs, since=0.0, protected=(".git",), limit_bytes=2**26)
    return await collector.collect(box, {})


async def shape(box: Box) -> str:
    result = await box.run(shell_command(SHAPE))
    assert result.ok, result.stderr.text
    return result.stdout.text


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("printf 'one\\nthree\\n' > text.txt; mkdir -p new/deep; echo x > new/deep/x.txt", id="text"),
        pytest.param("head -c 300000 /dev/urandom > data.bin; printf 'a\\0b' > small.bin", id="binary"),
        pytest.param("rm gone.txt; rm -r old", id="deletions"),
        pytest.param("chmod 755 script.sh", id="mode"),
        pytest.param("ln -s kept/same.txt new-link; ln -s nowhere broken; mkdir d; ln -s ../kept d/up", id="links"),
        pytest.param("rm file-then-folder; mkdir file-then-folder; echo in > file-then-folder/in.txt", id="folder"),
        pytest.param("rm link-then-file; echo own > link-then-file", id="own file"),
        pytest.param("rm link-then-folder; mkdir link-then-folder; echo z > link-then-folder/z", id="own folder"),
        pytest.param("mv kept moved; mv moved/same.txt moved/other.txt", id="rename"),
        pytest.param("printf y > ' a b'; printf y > -- ; printf y > -n", id="names"),
        pytest.param("printf x > \"$(printf 'caf\\351')\"", id="no utf-8"),
    ],
)
async def test_a_fresh_box_becomes_like_the_one_that_was_left(line, project, backend, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    first = await backend.start(BoxSpec(workspace=project))
    changes = await changed(first, line, project, blobs)
    left = await shape(first)
    await first.close()
    second = await backend.start(BoxSpec(workspace=project))
    assert await lay_changes(second, changes, blobs) == len(changes)
    assert await shape(second) == left


async def test_nothing_is_written_through_a_link_of_the_project(project, backend, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    first = await backend.start(BoxSpec(workspace=project))
    changes = await changed(first, "rm link-then-file; echo own > link-then-file", project, blobs)
    second = await backend.start(BoxSpec(workspace=project))
    await lay_changes(second, changes, blobs)
    assert await second.files.read("text.txt") == b"one\ntwo\n"


@pytest.mark.parametrize("line", ["rm -r folder-then-file; echo now > folder-then-file", "rm -r old; ln -s kept old"])
async def test_what_took_the_place_of_a_folder_is_laid_where_it_may_be(line, project, backend, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    first = await backend.start(BoxSpec(workspace=project))
    changes = await changed(first, line, project, blobs)
    [kept] = [change for change in changes if change.state == "protected"]
    second = await backend.start(BoxSpec(workspace=project))
    may = [replace(change, state="proposed") if change is kept else change for change in changes]
    await lay_changes(second, may, blobs)
    assert await shape(second) == await shape(first)


async def test_what_is_protected_stays_where_it_was_made(project, backend, tmp_path):
    box = await backend.start(BoxSpec(workspace=project))
    hook = FileChange(".git/hooks/pre-commit", "added", new_sha256="0" * 64, state="protected")
    assert await lay_changes(box, [hook], BlobStore(tmp_path / "blobs")) == 0


async def test_a_content_that_is_gone_is_told(project, backend, tmp_path):
    box = await backend.start(BoxSpec(workspace=project))
    lost = FileChange("lost.txt", "added", new_sha256="0" * 64)
    with pytest.raises(WorkspaceError, match=r"lost\.txt is not kept any more"):
        await lay_changes(box, [lost], BlobStore(tmp_path / "blobs"))


@pytest.mark.parametrize("path", ["/etc/passwd", "../out", "a/../../out", ""])
async def test_a_path_that_leads_out_is_refused(path, project, backend, tmp_path):
    box = await backend.start(BoxSpec(workspace=project))
    with pytest.raises(WorkspaceError, match="leads out"):
        await lay_changes(box, [FileChange(path, "deleted")], BlobStore(tmp_path / "blobs"))


async def test_what_the_box_refuses_is_told(project, backend, tmp_path):
    box = await backend.start(BoxSpec(workspace=project))
    with pytest.raises(BoxFileError, match="name too long"):
        await lay_changes(box, [FileChange("n" * 300, "deleted")], BlobStore(tmp_path / "blobs"))


async def test_more_names_than_fit_into_one_line_are_removed(project, backend, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    (project / "many").mkdir()
    for number in range(600):
        (project / "many" / f"{number:03}-{'x' * 150}").touch()
    first = await backend.start(BoxSpec(workspace=project))
    changes = await changed(first, "rm -r many", project, blobs)
    second = await backend.start(BoxSpec(workspace=project))
    await lay_changes(second, changes, blobs)
    assert await shape(second) == await shape(first)
