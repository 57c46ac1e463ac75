"""Writing: whole files, appending, directories, and the budget for all of it."""

import base64
import errno
import os
import stat
import threading

import pytest

from kagura_kernel.plugins.sdk import (
    AlreadyExists,
    ArgumentRefused,
    ConfigRefused,
    LimitReached,
    NotFound,
    PathRefused,
    StorageFailed,
    TooLarge,
)
from kagura_kernel.plugins.sdk.writing import MAX_CHUNK, MAX_ENTRIES, MAX_FILE, MAX_TOTAL, WriteJail


def names_in(base) -> list[str]:
    return [path.name for path in base.iterdir()]


def mode_of(path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_file_is_readable_by_its_owner_alone_whatever_the_umask(base, fs_write):
    before = os.umask(0)
    try:
        assert fs_write().write_text("a.txt", "Grüße") == {"path": "a.txt", "written": 7, "size": 7, "created": True}
        fs_write().append_text("b.txt", "x")
        fs_write().write_bytes("c.bin", "AAE=")
        fs_write().make_dir("d")
    finally:
        os.umask(before)
    assert (base / "a.txt").read_text("utf-8") == "Grüße"
    assert (base / "c.bin").read_bytes() == b"\0\1"
    assert [mode_of(base / name) for name in ("a.txt", "b.txt", "c.bin", "d")] == [0o600, 0o600, 0o600, 0o700]


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(base, fs_write):
    (base / "a").write_text("a long text that was here before")
    (base / "a").chmod(0o644)
    held = (base / "a").open()
    assert fs_write().write_text("a", "new") == {"path": "a", "written": 3, "size": 3, "created": False}
    assert (base / "a").read_text() == "new"
    assert mode_of(base / "a") == 0o644
    with held:
        # Whoever has the old one open sees the old one to its end.
        assert held.read() == "a long text that was here before"
    assert names_in(base) == ["a"]


def test_bits_that_lend_rights_are_not_kept(base, fs_write):
    (base / "a").write_text("x")
    (base / "a").chmod(0o6755)
    fs_write().write_text("a", "new")
    assert mode_of(base / "a") == 0o755


def test_a_file_that_is_there_can_be_kept(base, fs_write):
    (base / "a").write_text("old")
    for call in (fs_write().write_text, fs_write().write_bytes):
        with pytest.raises(AlreadyExists):
            call("a", "bmV3", overwrite=False)
    assert (base / "a").read_text() == "old"
    assert fs_write().write_text("b", "x", overwrite=False)["created"]


def test_text_is_appended(base, fs_write):
    module = fs_write()
    assert module.append_text("a", "one\n")["created"]
    assert module.append_text("a", "two\n") == {"path": "a", "written": 4, "size": 8, "created": False}
    assert (base / "a").read_text() == "one\ntwo\n"


def test_directories_are_made_one_or_all_the_way(base, fs_write):
    module = fs_write()
    with pytest.raises(NotFound):
        module.make_dir("a/b/c")
    assert module.make_dir("a/b/c", parents=True) == {"path": "a/b/c", "created": 3}
    assert module.make_dir("a/b/c", parents=True) == {"path": "a/b/c", "created": 0}
    assert module.make_dir("a/b")["created"] == 0
    assert (base / "a/b/c").is_dir()
    (base / "f").touch()
    for path in ("f", "f/x"):
        with pytest.raises(PathRefused):
            module.make_dir(path)


def test_a_file_is_not_written_where_its_directory_is_missing(base, fs_write):
    for call in (fs_write().write_text, fs_write().append_text):
        with pytest.raises(NotFound):
            call("a/b.txt", "x")
    assert names_in(base) == []


def test_one_call_writes_no_more_than_its_chunk(base, fs_write):
    module = fs_write()
    assert module.write_text("a", "x" * MAX_CHUNK)["written"] == MAX_CHUNK
    for text in ("x" * (MAX_CHUNK + 1), "é" * (MAX_CHUNK // 2 + 1)):
        for call in (module.write_text, module.append_text):
            with pytest.raises(TooLarge, match="append"):
                call("b", text)
    with pytest.raises(TooLarge):
        module.write_bytes("b", base64.b64encode(b"x" * (MAX_CHUNK + 3)).decode())
    assert names_in(base) == ["a"]


def test_a_file_does_not_grow_above_its_cap(base, fs_write):
    module = fs_write()
    for _ in range(5):
        module.append_text("a", "x" * MAX_CHUNK)
    assert (base / "a").stat().st_size == MAX_FILE
    with pytest.raises(TooLarge):
        module.append_text("a", "x")
    assert (base / "a").stat().st_size == MAX_FILE
    with pytest.raises(TooLarge):
        fs_write(max_file_kib=1).write_text("b", "x" * 1025)


def test_all_calls_together_write_no_more_than_the_total(base, fs_write):
    module = fs_write()
    for _ in range(MAX_TOTAL // MAX_CHUNK):
        module.write_text("a", "x" * MAX_CHUNK)
    for call in (module.write_text, module.append_text):
        with pytest.raises(LimitReached, match="20,971,520 bytes written"):
            call("a", "x")
    assert (base / "a").read_text() == "x" * MAX_CHUNK
    assert module.write_text("empty", "")["created"]


def test_a_thousand_files_and_directories_are_made_and_no_more(base, fs_write):
    module = fs_write()
    module.make_dir("d")
    for number in range(MAX_ENTRIES - 1):
        module.write_text(f"d/{number}", "")
    for call in (module.write_text, module.append_text):
        with pytest.raises(LimitReached, match="1,000 files and directories"):
            call("more", "x")
    with pytest.raises(LimitReached):
        module.make_dir("e")
    assert module.write_text("d/0", "what is there may still be written")["created"] is False
    assert names_in(base) == ["d"]


def test_what_fails_costs_nothing_of_the_budget(base, fs_write):
    module = fs_write(max_total_kib=1, max_entries=1)
    (base / "link").symlink_to("x")
    for path in ("link", "no/such", "..", ".hidden"):
        for call in (module.write_text, module.append_text):
            with pytest.raises((PathRefused, NotFound)):
                call(path, "x" * 1024)
        with pytest.raises((PathRefused, NotFound)):
            module.make_dir(path)
    assert module.write_text("a", "x" * 1024)["created"]
    with pytest.raises(LimitReached):
        module.write_text("a", "x")


def test_many_threads_together_keep_to_the_budget(base):
    jail = WriteJail(str(base), total_bytes=50, entries=30)
    problems = []

    def write(name: str) -> None:
        for number in range(20):
            try:
                jail.text(f"{name}{number}", "12345")
            except LimitReached as error:
                problems.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names_in(base)) == 10
    assert len(problems) == 70


def test_many_threads_together_do_not_grow_a_file_above_its_cap(base):
    jail = WriteJail(str(base), file_bytes=1000)
    jail.append("f", "")
    refused = []

    def append() -> None:
        for _ in range(30):
            try:
                jail.append("f", "1234567")
            except TooLarge as error:
                refused.append(error)

    threads = [threading.Thread(target=append) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (base / "f").stat().st_size == 994
    assert len(refused) == 180 - 142


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("write_text", ("a", b"x")),
        ("write_text", ("a", None)),
        ("write_text", ("a", "\ud800")),
        ("write_text", ("a", "x", "yes")),
        ("append_text", ("a", 1)),
        ("write_bytes", ("a", "no base64!")),
        ("write_bytes", ("a", "AAA")),
        ("write_bytes", ("a", "é")),
        ("write_bytes", ("a", b"AAAA")),
        ("make_dir", ("a", 1)),
    ],
)
def test_an_odd_argument_is_refused_before_anything_is_written(function, arguments, base, fs_write):
    with pytest.raises(ArgumentRefused):
        getattr(fs_write(), function)(*arguments)
    assert names_in(base) == []


def test_a_full_disk_leaves_the_old_file_and_no_remains(base, fs_write, monkeypatch):
    (base / "a").write_text("old")
    module = fs_write(max_total_kib=1)

    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(base))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(StorageFailed, match="disk is full") as failed:
            module.write_text("a", "x" * 1024)
    assert str(base) not in str(failed.value)
    assert (base / "a").read_text() == "old"
    assert names_in(base) == ["a"]
    assert module.write_text("a", "x" * 1024)["written"] == 1024


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_total_kib", 20481), ("max_chunk_kib", 2049), ("max_file_kib", 10241), ("max_entries", 1001)],
)
def test_caps_can_be_lowered_and_never_raised(field, value, fs_write):
    with pytest.raises(ConfigRefused, match=field):
        fs_write(**{field: value})


def test_nothing_can_be_read(fs_write):
    assert set(vars(fs_write())) == {"write_text", "append_text", "make_dir", "write_bytes"}
