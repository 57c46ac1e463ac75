"""Writing files in a box step by step, with programs that get in the way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kagura_kernel.sandbox.guest import files
from kagura_kernel.sandbox.guest.files import INPUT

if TYPE_CHECKING:
    from kagura_kernel.sandbox.guest.files import Operation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


def begun(path: Path, mode: int | None = None) -> Operation:
    """A write of which the first half has arrived."""
    writing = files.write(os.fsencode(path), mode)
    assert next(writing) is INPUT
    assert writing.send(b"first half, ") is INPUT
    return writing


def swapped(folder: Path) -> Path:
    """Where the folder is after a link to another one has taken its place."""
    elsewhere, moved = folder.with_name("elsewhere"), folder.with_name("moved")
    elsewhere.mkdir()
    folder.rename(moved)
    folder.symlink_to(elsewhere)
    return moved


def everything_below(path: Path) -> list[str]:
    return sorted(name for _, folders, names in os.walk(path) for name in folders + names)


def test_a_write_that_is_broken_off_leaves_nothing_although_its_folder_was_swapped(
    folder: Path, tmp_path: Path
) -> None:
    writing = begun(folder / "secret")
    swapped(folder)
    writing.close()
    assert everything_below(tmp_path) == ["elsewhere", "folder", "moved"]


def test_a_write_ends_in_the_folder_in_which_it_began(folder: Path, tmp_path: Path) -> None:
    writing = begun(folder / "secret", 0o600)
    moved = swapped(folder)
    with pytest.raises(StopIteration):
        writing.send(b"")
    assert (moved / "secret").read_bytes() == b"first half, "
    assert (moved / "secret").stat().st_mode & 0o7777 == 0o600
    assert everything_below(tmp_path) == ["elsewhere", "folder", "moved", "secret"]


def test_what_a_program_has_moved_away_meanwhile_holds_nothing_afterwards(folder: Path, tmp_path: Path) -> None:
    writing = begun(folder / "secret")
    (half,) = folder.iterdir()
    stolen = half.rename(tmp_path / "stolen")
    writing.close()
    assert stolen.read_bytes() == b""


def test_a_link_in_the_place_of_the_folder_is_not_followed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    makedirs = os.makedirs

    def meanwhile(path: bytes, *, exist_ok: bool) -> None:
        makedirs(path, exist_ok=exist_ok)
        swapped(folder)

    monkeypatch.setattr(files.os, "makedirs", meanwhile)
    with pytest.raises(NotADirectoryError):
        next(files.write(os.fsencode(folder / "secret"), None))
    assert everything_below(tmp_path) == ["elsewhere", "folder", "moved"]
