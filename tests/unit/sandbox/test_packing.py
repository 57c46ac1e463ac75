"""A directory as an archive: what is in it, what tells two of them apart, and what is refused."""

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import PathNotShown
from kagura_kernel.sandbox.docker import volumes as docker_volumes
from kagura_kernel.sandbox.docker.volumes import Packed, pack, state_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "folder"
    (root / "sub" / "empty").mkdir(parents=True)
    (root / "a").write_bytes(b"first")
    (root / "sub" / "run").write_bytes(b"#!/bin/sh\n")
    (root / "sub" / "run").chmod(0o4711)
    (root / "sub" / "private").write_bytes(b"")
    (root / "sub" / "private").chmod(0o600)
    (root / "sub" / "up").symlink_to("../a")
    return root


def packed(folder: Path) -> tuple[Packed, list[tarfile.TarInfo], bytes]:
    archive = io.BytesIO()
    found = pack(folder, archive)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        return found, tar.getmembers(), archive.getvalue()


def test_everybody_may_read_what_is_there_and_run_what_somebody_may_run(folder: Path):
    found, members, _ = packed(folder)
    assert [(one.name, oct(one.mode), one.linkname) for one in members] == [
        (".", "0o755", ""),
        ("a", "0o644", ""),
        ("sub", "0o755", ""),
        ("sub/empty", "0o755", ""),
        ("sub/private", "0o644", ""),
        ("sub/run", "0o755", ""),
        ("sub/up", "0o777", "../a"),
    ]
    assert {(one.uid, one.gid, one.uname, one.gname) for one in members} == {(0, 0, "", "")}
    assert found.left_out == ()


def test_equal_contents_have_one_digest_wherever_and_whenever_they_were_made(folder: Path):
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy, symlinks=True)
    os.utime(copy / "a", (1, 1))
    assert packed(copy)[0].digest == packed(folder)[0].digest
    assert state_of(copy) != state_of(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a").write_bytes(b"other"),
        lambda root: (root / "a").chmod(0o755),
        lambda root: (root / "a").rename(root / "b"),
        lambda root: (root / "sub" / "empty" / "new").touch(),
        lambda root: (root / "sub" / "empty").rmdir(),
        lambda root: ((root / "sub" / "up").unlink(), (root / "sub" / "up").symlink_to("run")),
    ],
    ids=["content", "mode", "name", "new", "gone", "link"],
)
def test_every_change_is_another_digest_and_seen_without_reading(folder: Path, change):
    before = packed(folder)[0]
    assert state_of(folder) == before.state
    change(folder)
    assert state_of(folder) != before.state
    after = packed(folder)[0]
    assert after.digest != before.digest
    assert state_of(folder) == after.state


def test_what_is_no_file_and_what_leads_out_stays_out(folder: Path):
    os.mkfifo(folder / "fifo")
    for name, target in {"up": "../other", "deep": "x/../../..", "root": "/etc/passwd", "self": "."}.items():
        (folder / name).symlink_to(target)
    found, members, _ = packed(folder)
    assert found.left_out == ("deep", "fifo", "root", "up")
    assert "self" in [one.name for one in members]


def test_a_name_that_is_no_text_keeps_its_bytes(folder: Path):
    (folder / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    _, members, archive = packed(folder)
    assert os.fsdecode(b"caf\xe9") in [one.name for one in members]
    assert b"caf\xe9\0" in archive


def test_a_directory_that_is_none_or_behind_a_link_is_refused(folder: Path):
    (folder.parent / "link").symlink_to(folder)
    for place, why in (
        (folder / "missing", "no such file"),
        (folder / "a", "not a directory"),
        (folder.parent / "link", "is a link"),
        (folder.parent / "link" / "sub", "is a link"),
    ):
        for ask in (state_of, lambda place: pack(place, io.BytesIO())):
            with pytest.raises(PathNotShown, match=why):
                ask(place)


def test_too_much_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docker_volumes, "MOST", 6)
    assert state_of(folder)
    (folder / "one more").touch()
    with pytest.raises(PathNotShown, match="more than 6 files"):
        state_of(folder)
    monkeypatch.setattr(docker_volumes, "MOST", 100)
    monkeypatch.setattr(docker_volumes, "LARGEST", 2**20)
    (folder / "large").touch()
    os.truncate(folder / "large", 2**20)
    with pytest.raises(PathNotShown, match="larger than 1 MiB"):
        pack(folder, io.BytesIO())


def test_a_folder_that_is_too_deep_is_refused(folder: Path):
    (folder / "/".join("d" * 70)).mkdir(parents=True)
    with pytest.raises(PathNotShown, match="deeper than 64"):
        state_of(folder)


def test_a_file_that_changes_while_it_is_read_is_told(folder: Path):
    class Disturbing(io.BytesIO):
        def write(self, data) -> int:
            if bytes(data[:5]) == b"first":
                (folder / "a").write_bytes(b"later and longer")
            return super().write(data)

    with pytest.raises(PathNotShown, match=r"a cannot be read.*changes at this moment"):
        pack(folder, Disturbing())
    assert packed(folder)[0].state == state_of(folder)
