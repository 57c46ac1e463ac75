"""An overlay's upper directory, made by hand: what the kernel leaves there is written down in its documentation."""

import os
import stat

import pytest

from kagura_kernel.sandbox.guest import changes

PROTECTED = (b".git", b"keep/safe")


@pytest.fixture
def layers(tmp_path):
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    (lower / "dir" / "inner").mkdir(parents=True)
    (lower / ".git").mkdir()
    (lower / ".git" / "config").write_text("c")
    (lower / "a").write_text("alpha")
    (lower / "b").write_text("beta")
    (lower / "dir" / "one").write_text("1")
    (lower / "dir" / "inner" / "two").write_text("2")
    (lower / "link").symlink_to("a")
    upper.mkdir()
    return lower, upper


def told(layers) -> dict[str, str]:
    lower, upper = layers
    found = changes.in_overlay(os.fsencode(upper), os.fsencode(lower), PROTECTED)
    return {change["path"]: change["status"] for change in found if change is not None}


def whiteout(path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
    except PermissionError:
        pytest.skip("this user may make no whiteouts")


def test_a_file_that_was_only_opened_or_touched_is_no_change(layers):
    lower, upper = layers
    (upper / "a").write_text("alpha")
    (upper / "a").chmod((lower / "a").stat().st_mode)
    (upper / "link").symlink_to("a")
    (upper / "dir").mkdir()
    assert told(layers) == {}


def test_whiteouts_are_deletions_of_all_that_was_there(layers):
    _, upper = layers
    whiteout(upper / "b")
    whiteout(upper / "dir")
    whiteout(upper / "never-there")
    assert told(layers) == {"b": "deleted", "dir/one": "deleted", "dir/inner/two": "deleted"}


def test_an_opaque_directory_hides_what_was_below(layers):
    _, upper = layers
    (upper / "dir").mkdir()
    (upper / "dir" / "one").write_text("other")
    try:
        os.setxattr(upper / "dir", "user.overlay.opaque", b"y")
    except OSError:
        pytest.skip("this file system has no user attributes")
    assert told(layers) == {"dir/one": "modified", "dir/inner/two": "deleted"}


def test_protected_paths_and_odd_kinds_are_not_told(layers):
    _, upper = layers
    (upper / ".git").mkdir()
    (upper / ".git" / "config").write_text("evil")
    (upper / "keep" / "safe").mkdir(parents=True)
    (upper / "keep" / "safe" / "x").write_text("evil")
    (upper / "keep" / "safer").write_text("fine")
    (upper / ".gitignore").write_text("fine")
    os.mkfifo(upper / "pipe")
    assert told(layers) == {"keep/safer": "added", ".gitignore": "added"}


def test_a_walk_goes_by_names_and_directories_before_what_is_in_them(tmp_path):
    for name in ("b/2/x", "b/1", "a", "b.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = [os.fsdecode(path) for path, _ in changes.walk(os.fsencode(tmp_path), b"", ())]
    assert found == ["a", "b", "b/1", "b/2", "b/2/x", "b.c"]


def test_a_recorded_state_finds_a_file_put_back_with_its_old_time(layers):
    lower, _ = layers
    root = os.fsencode(lower)
    baseline = dict(changes.record(root, PROTECTED))
    before = (lower / "a").stat()
    (lower / "a").write_text("ALPHA")
    os.utime(lower / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    found = [change for change in changes.since(root, baseline, PROTECTED) if change is not None]
    assert [(change["path"], change["status"]) for change in found] == [("a", "modified")]
