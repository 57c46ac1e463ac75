import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.errors import WorkspaceRefused, WorkspaceUnreadable
from kagura_kernel.membrane.project import HostState, ProjectFiles, UnsafePath, link_hash, make_project, split_path


def test_a_file_is_told_with_its_hash_and_as_much_content_as_was_asked_for(root: Path) -> None:
    (root / "a.txt").write_bytes(b"hello")
    state = ProjectFiles(root).state("a.txt", keep=5)
    assert (state.kind, state.size, state.content) == ("file", 5, b"hello")
    assert state.sha256 == hashlib.sha256(b"hello").hexdigest()
    assert ProjectFiles(root).state("a.txt", keep=4).content is None


def test_nothing_is_told_as_nothing(root: Path) -> None:
    assert ProjectFiles(root).state("no/such/file") == HostState()


def test_a_link_is_described_and_never_followed(root: Path) -> None:
    (root / "to").symlink_to("/etc/hostname")
    state = ProjectFiles(root).state("to")
    assert (state.kind, state.content) == ("link", b"/etc/hostname")
    assert state.sha256 == link_hash("/etc/hostname")


def test_a_directory_that_is_a_link_is_not_walked_through(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    (root / "sub").symlink_to(outside)
    files = ProjectFiles(root)
    with pytest.raises(OSError):  # noqa: PT011 - ELOOP or ENOTDIR, by kernel
        files.replace("sub/new", b"x", 0o644)
    assert files.state("sub/secret").content is None
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


def test_a_file_is_replaced_as_a_whole_with_its_directories(root: Path) -> None:
    files = ProjectFiles(root)
    files.replace("deep/er/a.txt", b"new", 0o755)
    assert (root / "deep/er/a.txt").read_bytes() == b"new"
    assert (root / "deep/er/a.txt").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in (root / "deep/er").iterdir()] == ["a.txt"]


def test_setuid_bits_never_reach_the_project(root: Path) -> None:
    ProjectFiles(root).replace("tool", b"#!/bin/sh\n", 0o6755)
    assert (root / "tool").stat().st_mode & 0o7000 == 0


def test_a_link_in_the_place_of_a_file_is_replaced_not_written_through(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("keep")
    (root / "a").symlink_to(target)
    ProjectFiles(root).replace("a", b"mine", 0o644)
    assert target.read_text() == "keep"
    assert not (root / "a").is_symlink()


def test_removing_takes_emptied_directories_along_and_no_others(root: Path) -> None:
    files = ProjectFiles(root)
    files.replace("a/b/c.txt", b"", 0o644)
    files.replace("a/d.txt", b"", 0o644)
    files.remove("a/b/c.txt")
    assert not (root / "a/b").exists()
    assert (root / "a/d.txt").exists()


def test_a_device_or_fifo_is_only_told_as_other(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert ProjectFiles(root).state("pipe").kind == "other"


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\0b", "x" * 5000])
def test_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(UnsafePath):
        split_path(path)


@given(st.text(max_size=60))
def test_whatever_path_is_accepted_stays_below_the_root(path: str) -> None:
    try:
        parts = split_path(path)
    except UnsafePath:
        return
    assert parts
    assert not any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts)


@pytest.mark.parametrize(
    "named", ["sales/march", "{home}/sales/march", "{home}/x/../sales/march", "{alias}/sales/march"]
)
def test_a_folder_below_home_is_made_and_is_a_project(tmp_path: Path, named: str) -> None:
    home, alias = tmp_path / "home", tmp_path / "alias"
    home.mkdir()
    alias.symlink_to(home)
    project = make_project(Path(named.format(home=home, alias=alias)), home=alias, private=[])
    assert project == home / "sales" / "march"
    assert project.is_dir()
    assert make_project(project, home=home, private=[]) == project


@pytest.mark.parametrize(
    "named", ["", ".", "/etc", "..", "../other", "sales/../..", "link", "link/new", "file/new", ".ssh/new", "data/new"]
)
def test_nothing_else_is_made_a_project(tmp_path: Path, named: str) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (home / "link").symlink_to(outside)
    (home / "file").write_text("")
    with pytest.raises(WorkspaceRefused):
        make_project(Path(named), home=home, private=[home / "data"])
    assert list(outside.iterdir()) == []
    assert sorted(path.name for path in home.iterdir()) == ["file", "link"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceUnreadable, match="cannot be made"):
        make_project(Path("x" * 300), home=tmp_path, private=[])
