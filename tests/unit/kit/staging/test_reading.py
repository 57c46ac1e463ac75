import os
from pathlib import Path

import pytest

from kagura_kernel.kit.staging import home_files
from kagura_kernel.kit.staging.home_files import SWAPPED, Unfit, open_root

PRIVATE = "what lies outside"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text(PRIVATE)
    inner = tmp_path / "root/inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("inside")
    with open_root(tmp_path / "root") as root:
        yield root


def test_a_file_is_read_with_its_state(root):
    data, found = root.read("inner/file", 10)
    assert (data, found.st_size) == (b"inside", 6)
    assert root.head("inner/file", 2) == b"in"
    with root.below("inner") as inner:
        assert inner.read("./file", 6)[0] == b"inside"
    with pytest.raises(Unfit, match="it is larger than 0 KiB"):
        root.read("inner/file", 5)


@pytest.mark.parametrize("path", ["../outside/file", "inner/../../outside/file", "inner/../.."])
def test_no_path_leads_above_the_root(root, path):
    with pytest.raises(Unfit, match="leads out"):
        root.look(path)


def test_what_is_no_directory_has_nothing_below_it(root):
    with pytest.raises(NotADirectoryError):
        root.look("inner/file/more")
    with pytest.raises(FileNotFoundError):
        root.look("none/more")
    with pytest.raises(Unfit, match="it is no directory"):
        root.below("inner/file")


@pytest.mark.parametrize("swapped", ["inner", "inner/file"])
def test_a_link_that_is_put_in_place_after_the_look_is_not_followed(root, monkeypatch, swapped):
    path = root.place / swapped
    real = os.stat

    def look_then_swap(name, **options):
        found = real(name, **options)
        if name == path.name and not path.is_symlink():
            path.rename(root.place / "aside")
            path.symlink_to(root.place.parent / "outside" / ("file" if swapped.endswith("file") else ""))
        return found

    monkeypatch.setattr(os, "stat", look_then_swap)
    with pytest.raises(Unfit, match=SWAPPED):
        root.read("inner/file", 100)


def test_a_directory_that_is_moved_away_during_the_walk_leads_nowhere_else(root, monkeypatch):
    (root.place / "inner/up").symlink_to("../inner/file")
    real = os.readlink

    def move_then_read(name, **options):
        # From here on `..` of the directory's name would lead out of the root.
        (root.place / "inner").rename(root.place.parent / "outside/moved")
        return real(name, **options)

    monkeypatch.setattr(os, "readlink", move_then_read)
    with pytest.raises(FileNotFoundError):
        root.read("inner/up", 100)


def test_a_pipe_that_is_put_in_a_files_place_is_not_waited_for(root, monkeypatch):
    path = root.place / "inner/file"
    real = home_files._open_leaf

    def swap_then_open(name, parent):
        path.unlink()
        os.mkfifo(path)
        return real(name, parent)

    monkeypatch.setattr(home_files, "_open_leaf", swap_then_open)
    with pytest.raises(Unfit, match="it is a named pipe"):
        root.read("inner/file", 100)


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_a_walk_leaves_no_descriptor_open(root):
    (root.place / "inner/loop").symlink_to("loop")
    before = descriptors()
    for path in ("inner/file", "../x", "inner/loop", "none", "inner"):
        try:
            root.read(path, 100)
        except (Unfit, OSError):
            continue
    assert descriptors() == before
