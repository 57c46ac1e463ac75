"""Every trick with a path, for reading and for writing alike."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kagura_kernel.plugins.sdk import ConfigRefused, NotFound, PathRefused, PluginFault
from kagura_kernel.plugins.sdk.descent import MAX_PATH, components

BAD = {
    "empty": "",
    "absolute": "/etc/passwd",
    "twice absolute": "//etc/passwd",
    "upwards": "../outside/secret.txt",
    "upwards in the middle": "a/../../outside/secret.txt",
    "upwards at the end": "a/..",
    "upwards alone": "..",
    "here in the middle": "a/./b",
    "hidden": ".ssh",
    "hidden in the middle": "a/.git/config",
    "many dots": "...",
    "NUL": "a\0.txt",
    "NUL after a good name": "a.txt\0/../../x",
    "a line break": "a\nb",
    "an escape": "a\x1b[31m",
    "delete": "a\x7f",
    "half a character": "a\ud800",
    "an empty component": "a//b",
    "a slash at the end": "a/",
    "too long": "a/" * 2047 + "abc",
    "too long in bytes alone": "é" * 2049,
}

NO_TEXT = [None, 1, b"a.txt", ["a.txt"], {"path": "a"}, True, 1.5]


@pytest.fixture(params=["read_text", "read_bytes", "list_dir", "stat", "write_text", "append_text", "make_dir"])
def reach(request: pytest.FixtureRequest, fs_read, fs_write) -> Callable[[object], object]:
    """One function that takes a path."""
    if request.param in ("read_text", "read_bytes", "list_dir", "stat"):
        return getattr(fs_read(), request.param)
    function = getattr(fs_write(), request.param)
    return function if request.param == "make_dir" else lambda path: function(path, "written")


@pytest.mark.parametrize("path", BAD.values(), ids=BAD.keys())
def test_a_path_that_is_no_plain_way_down_is_refused(path, reach, base, tmp_path):
    (base / "a").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PathRefused) as refused:
        reach(path)
    assert str(tmp_path) not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("path", NO_TEXT, ids=repr)
def test_what_is_no_text_is_no_path(path, reach):
    with pytest.raises(PathRefused):
        reach(path)


def test_the_longest_path_is_taken_and_one_byte_more_is_not():
    longest = "a/" * 2046 + "abcd"
    assert len(longest) == MAX_PATH
    assert len(components(longest)) == 2047
    with pytest.raises(PathRefused, match="longer"):
        components(longest + "e")


@pytest.mark.parametrize(
    "name",
    ["a file with blanks", "naïve.txt", "日本語", "a\\b", "~", "~root", "$HOME", "%2e%2e", "a..%2f", "a..b", "-rf"],
)
def test_a_name_that_only_looks_odd_is_a_name(name, base, fs_read, fs_write):
    fs_write().write_text(name, "hello")
    assert (base / name).read_text() == "hello"
    assert fs_read().read_text(name)["text"] == "hello"
    assert [entry["name"] for entry in fs_read().list_dir()["entries"]] == [name]


def _link(base: Path, name: str, target: str) -> None:
    (base / name).symlink_to(target)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a link to a file outside": lambda base: _link(base, "x", "../outside/secret.txt"),
    "an absolute link outside": lambda base: _link(base, "x", str(base.parent / "outside" / "secret.txt")),
    "a link to a file inside": lambda base: _link(base, "x", "plain.txt"),
    "a link to nothing": lambda base: _link(base, "x", "../outside/new.txt"),
    "a link to itself": lambda base: _link(base, "x", "x"),
    "a link to a descriptor": lambda base: _link(base, "x", "/proc/self/fd/0"),
    "a hard link": lambda base: os.link(base.parent / "outside" / "secret.txt", base / "x"),
    "a FIFO": lambda base: os.mkfifo(base / "x"),
    "a socket": lambda base: _socket(base / "x"),
}


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


@pytest.mark.parametrize("make", SPECIAL.values(), ids=SPECIAL.keys())
def test_what_is_no_plain_file_with_one_name_is_refused(make, reach, base, tmp_path, monkeypatch, secret):
    monkeypatch.chdir(tmp_path)
    (base / "plain.txt").write_text("inside")
    make(base)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PathRefused) as refused:
        reach("x")
    assert str(tmp_path) not in str(refused.value)
    assert (tmp_path / "outside" / "secret.txt").read_text() == secret
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a device")
def test_a_device_is_refused(reach, base):
    try:
        os.mknod(base / "x", 0o020666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this file system takes no devices")
    with pytest.raises(PathRefused):
        reach("x")


@pytest.mark.parametrize("target", ["../outside", "inside"])
def test_a_linked_directory_is_not_walked_through(target, reach, base, secret):
    (base / "inside").mkdir()
    (base / "inside" / "secret.txt").write_text(secret)
    (base / "door").symlink_to(target)
    for path in ("door", "door/secret.txt", "door/new.txt"):
        with pytest.raises(PathRefused):
            reach(path)
    assert (base.parent / "outside" / "secret.txt").read_text() == secret
    assert not (base.parent / "outside" / "new.txt").exists()


def test_a_file_is_no_directory(reach, base):
    (base / "file").write_text("x")
    with pytest.raises(PathRefused):
        reach("file/below")


def test_links_and_special_files_are_counted_and_not_shown(base, fs_read, monkeypatch):
    monkeypatch.chdir(base)
    for name, make in SPECIAL.items():
        make(base)
        (base / "x").rename(base / f"special {name}")
    (base / ".hidden").write_text("x")
    (base / "plain.txt").write_text("x")
    (base / "folder").mkdir()
    found = fs_read().list_dir()
    assert [(entry["name"], entry["kind"], entry["size"]) for entry in found["entries"]] == [
        ("folder", "directory", 0),
        ("plain.txt", "file", 1),
    ]
    assert found["left_out"] == len(SPECIAL) + 1
    assert found["complete"]


@pytest.mark.parametrize("where", ["missing", "file", "link", "", "relative/base", "/", "//", "/a\0b"])
def test_a_base_that_is_no_directory_of_its_own_is_refused_without_being_shown(where, tmp_path):
    from tests.support.included_plugins import functions_of

    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    place = str(tmp_path / where) if where in ("missing", "file", "link") else where
    for plugin in ("fs-read", "fs-write"):
        with pytest.raises(ConfigRefused) as refused:
            functions_of(plugin, {"base_dir": place})
        assert str(tmp_path) not in str(refused.value)


def test_no_error_names_the_base_whatever_is_asked(base, fs_read, fs_write):
    (base / "locked").mkdir(mode=0)
    (base / "file").write_text("x")
    calls: list[Callable[[], object]] = [
        lambda: fs_read().read_text("missing/deeper"),
        lambda: fs_read().read_text("file/x"),
        lambda: fs_read().read_text(str(base / "file")),
        lambda: fs_write().write_text(str(base / "file"), "x"),
        lambda: fs_read().list_dir("file"),
        lambda: fs_read().read_text("n" * 300),
        lambda: fs_write().write_text("missing/x", "y"),
        lambda: fs_write().write_text("n" * 300, "y"),
        lambda: fs_write().make_dir("file/x"),
        lambda: fs_write().make_dir("file"),
    ]
    for call in calls:
        with pytest.raises(PluginFault) as fault:
            call()
        assert str(base) not in str(fault.value)
        assert base.parent.name not in str(fault.value)
        assert fault.value.__cause__ is None


def test_the_base_stays_the_directory_that_it_was(base, fs_read):
    (base / "secret.txt").write_text("inside")
    module: SimpleNamespace = fs_read()
    base.rename(base.parent / "moved")
    base.symlink_to("outside")
    assert module.read_text("secret.txt")["text"] == "inside"
    (base.parent / "moved" / "secret.txt").unlink()
    with pytest.raises(NotFound):
        module.read_text("secret.txt")
