from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.runs.delegating import child_delta, take_over, to_lay
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.box import FakeBackend, FakeBox

NAMES = ("a", "b", "c", "d")


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def written(path: str, text: str, **more: Any) -> FileChange:
    return FileChange(path, "modified", size=len(text), new_sha256=sha(text), **more)


def gone(path: str) -> FileChange:
    return FileChange(path, "deleted")


states = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["deleted", "x", "y", "z"]), max_size=4)


def changes(state: dict[str, str]) -> tuple[FileChange, ...]:
    return tuple(gone(path) if text == "deleted" else written(path, text) for path, text in state.items())


@given(states, states)
def test_what_a_child_did_leads_from_its_beginning_to_its_end(before, after):
    changed, undone = child_delta(changes(before), changes(after))
    now = dict(before)
    for path in undone:
        del now[path]
    now |= {
        one.path: "deleted" if one.status == "deleted" else next(t for t in "xyz" if sha(t) == one.new_sha256)
        for one in changed
    }
    assert now == after
    assert not {one.path for one in changed} & set(undone)


def test_what_is_protected_or_was_never_taken_is_not_laid():
    kept = [written("a", "x"), gone("b"), FileChange("l", "added", "link", target="a")]
    assert to_lay([*kept, written(".git/config", "x", state="protected"), FileChange("huge", "added")]) == tuple(kept)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[FakeBox]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a").write_text("project's a")
    (project / "run").write_text("#!/bin/sh\n")
    (project / "run").chmod(0o755)
    (project / "link").symlink_to("a")
    backend = FakeBackend()
    made = await backend.start(BoxSpec(workspace=project))
    yield made
    await backend.close()


async def stored(blobs: BlobStore, *texts: str) -> None:
    async def once(text: str) -> AsyncIterator[bytes]:
        yield text.encode()

    for text in texts:
        await blobs.put(once(text))


async def test_what_a_child_did_is_in_its_parent_s_box_afterwards(box, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    await stored(blobs, "child's b", "parent's a", "parent's run", "old")
    await box.files.write("a", b"parent's a")
    await box.files.write("run", b"parent's run")
    await box.files.write("extra", b"old")
    # The child has brought `a` and `run` back, and taken `extra` away.
    before = [
        written("a", "parent's a"),
        written("run", "parent's run"),
        FileChange("extra", "added", new_sha256=sha("old")),
    ]
    after = [FileChange("b", "added", new_sha256=sha("child's b"), mode=0o755)]
    taken = await take_over(box, before, before, after, ProjectFiles(tmp_path / "project"), blobs)
    assert (taken.files, taken.conflicts) == (("a", "b", "extra", "run"), ())
    assert await box.files.read("a") == b"project's a"
    assert await box.files.read("b") == b"child's b"
    assert (await box.files.stat("b")).mode & 0o100
    assert (await box.files.stat("run")).mode & 0o100
    assert "extra" not in await box.files.glob("*")


async def test_what_changed_in_the_parent_meanwhile_stays_and_is_told(box, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    await stored(blobs, "child's", "both")
    await box.files.write("a", b"parent's own")
    now = [written("a", "parent's own"), written("same", "both")]
    after = [written("a", "child's"), written("same", "both"), FileChange("link", "deleted", "link")]
    taken = await take_over(box, now, [], after, ProjectFiles(tmp_path / "project"), blobs)
    assert (taken.files, taken.conflicts) == (("link", "same"), ("a",))
    assert await box.files.read("a") == b"parent's own"
    assert "link" not in await box.files.glob("*")


async def test_a_link_that_a_child_brought_back_points_where_the_project_s_does(box, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    before = [FileChange("link", "deleted", "link")]
    taken = await take_over(box, before, before, [], ProjectFiles(tmp_path / "project"), blobs)
    assert taken.files == ("link",)
    assert (await box.files.stat("link")).target == "a"


async def test_what_may_not_be_shown_was_not_undone(box, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    await box.files.write("a", b"parent's a")
    before = [written("a", "parent's a")]
    hidden = [written("a", "with a secret", state="protected")]
    taken = await take_over(box, before, before, hidden, ProjectFiles(tmp_path / "project"), blobs)
    assert (taken.files, taken.conflicts) == ((), ())
    assert await box.files.read("a") == b"parent's a"
