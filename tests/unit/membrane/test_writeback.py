import errno
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.change_apply import WrittenBack, apply_changes
from kagura_kernel.membrane.project import HostState, ProjectFiles, link_hash

CONTENT = b"#!/bin/sh\n"
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
async def blobs(tmp_path: Path) -> BlobStore:
    async def content() -> AsyncIterator[bytes]:
        yield CONTENT

    blobs = BlobStore(tmp_path / "blobs")
    await blobs.put(content())
    return blobs


def added(path: str) -> FileChange:
    return FileChange(path, "added", size=len(CONTENT), new_sha256=SHA)


def linked(path: str, target: str) -> FileChange:
    return FileChange(path, "added", "link", new_sha256=link_hash(target), target=target)


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        "docs/.git/config",
        ".GIT/config",
        ".g\u200cit/config",
        "git~1/config",
        ".Kagura/z",
        ".envrc",
        "a\nb",
        "env/bin/bash",
    ],
)
def test_a_protected_path_is_not_applied_whatever_its_stored_state_says(
    root: Path, blobs: BlobStore, path: str
) -> None:
    (root / "env").mkdir()
    (root / "env" / "pyvenv.cfg").write_text("")
    assert apply_changes(ProjectFiles(root), blobs, [added(path)]) == WrittenBack((), (path,))
    assert sorted(str(p.relative_to(root)) for p in root.rglob("*")) == ["env", "env/pyvenv.cfg"]


def test_what_a_policy_protects_is_not_applied(root: Path, blobs: BlobStore) -> None:
    changes = [added("data/x"), added("other")]
    done = apply_changes(ProjectFiles(root), blobs, changes, protected=("data",))
    assert done == WrittenBack(("other",), ("data/x",))


def test_a_repository_made_in_two_runs_is_not_completed(root: Path, blobs: BlobStore) -> None:
    files = ProjectFiles(root)
    assert apply_changes(files, blobs, [added("r/HEAD"), added("r/config")]).conflicts == ()
    assert apply_changes(files, blobs, [added("r/refs/x"), added("r/objects/y")]).applied == ()


CHAIN = [linked("d/up", ".."), linked("esc", "d/up/../secret"), linked("grand", "d/up/.."), linked("over", "d/up/x")]


@pytest.mark.parametrize("order", [CHAIN, CHAIN[::-1]])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_chain_of_links_never_leads_out(root: Path, blobs: BlobStore, order: list[FileChange], at_once: bool) -> None:
    files = ProjectFiles(root)
    for batch in [order] if at_once else [[change] for change in order]:
        apply_changes(files, blobs, batch)
    for path in root.rglob("*"):
        assert path.resolve().is_relative_to(root)
    assert not (root / "esc").is_symlink()
    assert not (root / "grand").is_symlink()


def test_the_projects_own_link_out_is_no_way_for_a_new_one(root: Path, blobs: BlobStore, tmp_path: Path) -> None:
    (root / "mine").symlink_to(tmp_path)
    changes = [linked("through", "mine/x"), linked("same", "mine"), linked("fine", "other")]
    assert apply_changes(ProjectFiles(root), blobs, changes) == WrittenBack(("fine",), ("through", "same"))


@pytest.mark.parametrize(
    "change", [replace(added("a"), status="modified"), linked("a", "b"), FileChange("a", "deleted")]
)
def test_a_save_after_the_look_is_a_conflict(root: Path, blobs: BlobStore, change: FileChange) -> None:
    (root / "a").write_text("old")
    change = replace(change, old_sha256=hashlib.sha256(b"old").hexdigest())

    class Saving(ProjectFiles):
        """The person saves right after the state was read."""

        def state(self, path: str, *, keep: int = 0) -> HostState:
            state = super().state(path, keep=keep)
            (root / "t").write_text("PERSON")
            (root / "t").replace(root / "a")
            return state

    assert apply_changes(Saving(root), blobs, [change]) == WrittenBack((), ("a",))
    assert [path.name for path in root.iterdir()] == ["a"]
    assert (root / "a").read_text() == "PERSON"


def test_a_file_made_after_the_look_is_a_conflict(root: Path, blobs: BlobStore) -> None:
    class Making(ProjectFiles):
        """The person makes the file right after nothing was found there."""

        def state(self, path: str, *, keep: int = 0) -> HostState:
            state = super().state(path, keep=keep)
            (root / path).write_text("PERSON")
            return state

    assert apply_changes(Making(root), blobs, [added("a"), linked("b", "a")]) == WrittenBack((), ("a", "b"))
    assert {path.name: path.read_text() for path in root.iterdir()} == {"a": "PERSON", "b": "PERSON"}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_program_becomes_one_and_who_else_may_read_or_write_a_new_file_is_as_the_person_has_it(
    root: Path, blobs: BlobStore, umask: int
) -> None:
    before = os.umask(umask)
    try:
        done = apply_changes(ProjectFiles(root), blobs, [replace(added("run"), mode=0o755), added("plain")])
    finally:
        os.umask(before)
    assert done.applied == ("run", "plain")
    assert (root / "run").stat().st_mode & 0o777 == 0o777 & ~umask
    assert (root / "plain").stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_full_disk_is_told_of_the_file_that_could_not_be_written(
    root: Path, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ProjectFiles, "replace", full)
    found = apply_changes(ProjectFiles(root), blobs, [added("run.sh"), added("next.sh")])
    assert (found.applied, found.conflicts) == ((), ())
    assert found.error is not None
    assert found.error.code == "ERR_WORKSPACE_UNREADABLE"
    assert found.error.message == (
        "run.sh cannot be written into the project: No space left on device. It is as it was; mend that, and do the "
        "same again."
    )
