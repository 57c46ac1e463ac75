import os
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.runtime.files import HostFiles, matches


@pytest.fixture
def root(tmp_path, project):
    (tmp_path / "secret").write_text("key")
    (project / "a.txt").write_text("hello")
    (project / "d").mkdir()
    (project / "d" / "b.py").write_text("1")
    (project / "out").symlink_to(tmp_path)
    (project / "leak").symlink_to(tmp_path / "secret")
    return project


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _reason(awaitable):
    with pytest.raises(BoxFileError) as caught:
        await awaitable
    return caught.value.reason


async def test_files_are_read_whole_and_in_part(root):
    files = HostFiles(root)
    assert await files.read("a.txt") == b"hello"
    assert await files.read("a.txt", offset=1, limit=3) == b"ell"
    assert await files.read(f"{root}/a.txt") == b"hello"


@pytest.mark.parametrize(
    "path", ["../secret", "d/../../secret", "/etc/passwd", "out/secret", "leak", "out/project/a.txt"]
)
async def test_nothing_outside_of_the_root_is_read_or_written(root, path):
    files = HostFiles(root)
    assert await _reason(files.read(path)) in ("EACCES", "ELOOP", "ENOTDIR")
    assert await _reason(files.write(path, b"x")) in ("EACCES", "ELOOP", "ENOTDIR")
    assert (root.parent / "secret").read_text() == "key"


async def test_a_sibling_with_the_same_beginning_lies_outside(root):
    (root.parent / "project2").mkdir()
    (root.parent / "project2" / "x").write_text("x")
    assert await _reason(HostFiles(root).read(f"{root}2/x")) == "EACCES"


async def test_other_kinds_of_files_are_refused_without_waiting(root):
    os.mkfifo(root / "fifo")
    files = HostFiles(root)
    assert await _reason(files.read("fifo")) == "EINVAL"
    assert await _reason(files.read("d")) == "EISDIR"
    assert await _reason(files.read("none")) == "ENOENT"
    assert await _reason(files.read("a\0b")) == "EINVAL"
    assert await _reason(files.write("fifo", b"x")) == "EINVAL"


async def test_writing_makes_directories_keeps_modes_and_leaves_no_temporary_files(root):
    files = HostFiles(root)
    await files.write("new/deep/x.txt", b"1")
    assert (root / "new" / "deep" / "x.txt").read_bytes() == b"1"
    (root / "a.txt").chmod(0o755)
    await files.write("a.txt", b"2")
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o755
    await files.write("a.txt", b"3", mode=0o600)
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o600
    assert await _reason(files.write("d", b"x")) == "EISDIR"
    assert sorted(path.name for path in root.iterdir()) == ["a.txt", "d", "leak", "new", "out"]


async def test_a_link_is_described_and_not_followed(root):
    found = await HostFiles(root).stat("leak")
    assert (found.kind, found.target) == ("link", str(root.parent / "secret"))
    assert (await HostFiles(root).stat(".")).kind == "directory"


async def test_a_directory_is_listed_by_name(root):
    entries = await HostFiles(root).list_dir(".")
    assert [(entry.path, entry.kind) for entry in entries] == [
        ("a.txt", "file"),
        ("d", "directory"),
        ("leak", "link"),
        ("out", "link"),
    ]
    assert [entry.path for entry in await HostFiles(root).list_dir("d")] == ["d/b.py"]
    assert await _reason(HostFiles(root).list_dir("out")) in ("ELOOP", "ENOTDIR")


async def test_glob_finds_files_at_any_depth_and_follows_no_link(root):
    files = HostFiles(root)
    assert await files.glob("**/*.py") == ["d/b.py"]
    assert await files.glob("*") == ["a.txt", "d", "leak", "out"]
    assert await files.glob("*", limit=2) == ["a.txt", "d"]
    assert await files.glob("out/*") == []
    assert await _reason(files.glob("../*")) == "EACCES"


async def test_no_descriptor_is_left_open(root):
    files = HostFiles(root)
    before = open_files()
    await files.read("d/b.py")
    await _reason(files.read("d/none"))
    await _reason(files.write("out/x", b""))
    await files.glob("**")
    assert open_files() == before


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "d/e/a.py", True),
        ("d/**", "d/e/f", True),
        ("d/**", "d", False),
        ("d/**/f", "d/f", True),
        ("?.txt", "a.txt", True),
        ("?.txt", "ab.txt", False),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("[!ab].txt", "c.txt", True),
        ("a[!x]b", "a/b", False),
        ("[a", "[a", True),
        ("[]]", "]", True),
        ("a.b", "axb", False),
        ("[a-c]1", "b1", True),
        ("[^a]", "^", True),
        ("./a", "a", True),
        ("a\nb*", "a\nbc", True),
    ],
)
def test_patterns_match_paths(pattern, path, expected):
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    assert matches(parts, path.split("/")) is expected


@given(st.text(), st.text())
def test_no_pattern_breaks_it(pattern, path):
    assert matches(pattern.split("/"), path.split("/")) in (True, False)


def test_a_pattern_with_many_unknown_depths_is_told_at_once():
    began = time.process_time()
    assert not matches(["**", "a"] * 10 + ["b"], ["a"] * 25)
    assert time.process_time() - began < 1
