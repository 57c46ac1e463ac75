import os
import socket
import threading
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import PluginInvalid
from kagura_kernel.domain.plugins import Severity
from kagura_kernel.plugins import content
from kagura_kernel.plugins.content import MAX_FILE_BYTES, MAX_FILES, read_content
from tests.support.plugin_files import write_plugin


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_plugin(tmp_path)


@pytest.fixture
def before_opening(monkeypatch):
    """Has something done right before a file or directory of this name is opened."""
    real = os.open

    def before(wanted, do):
        def opened(name, flags, *arguments, **named):
            if name == wanted:
                do()
            return real(name, flags, *arguments, **named)

        monkeypatch.setattr(content.os, "open", opened)

    return before


def rules(root: Path, *, bundled: bool = False) -> dict[str, str]:
    read = read_content(root, bundled=bundled)
    assert all(finding.severity is Severity.DANGER for finding in read.oddities)
    return {finding.file: finding.rule for finding in read.oddities}


def test_every_file_is_read_with_its_bytes_and_its_execute_bit(root):
    (root / "inner" / "deeper").mkdir(parents=True)
    (root / "inner" / "deeper" / "tool.py").write_bytes(b"x = 1\n")
    (root / "inner" / "deeper" / "tool.py").chmod(0o755)
    read = read_content(root)
    assert list(read.files) == ["README.md", "inner/deeper/tool.py", "plugin.json", "plugin.py"]
    assert read.files["inner/deeper/tool.py"] == b"x = 1\n"
    assert read.executable == {"inner/deeper/tool.py"}
    assert read.oddities == ()


def test_a_link_is_told_and_never_followed(root, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (root / "notes.txt").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "dangling").symlink_to("nowhere")
    assert rules(root) == {"notes.txt": "link", "folder": "link", "dangling": "link"}
    assert b"secret" not in b"".join(read_content(root).files.values())


def test_a_linked_directory_is_no_plugin(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    with pytest.raises(PluginInvalid, match="its directory is a link"):
        read_content(tmp_path / "alias")


def test_what_is_missing_or_no_directory_says_so(root):
    with pytest.raises(PluginInvalid, match="there is no directory"):
        read_content(root / "gone")
    with pytest.raises(PluginInvalid, match="is no directory"):
        read_content(root / "plugin.py")


def test_a_file_with_another_name_elsewhere_is_told(root, tmp_path):
    os.link(root / "README.md", tmp_path / "other")
    assert rules(root) == {"README.md": "hard-link"}


def test_pipes_and_sockets_are_told_without_waiting_for_them(root, monkeypatch):
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert rules(root) == {"pipe": "special-file", "socket": "special-file"}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *(
            (name, "native-code")
            for name in "f.so fast.cpython-311-x86_64-linux-gnu.SO libx.so.6 f.pyd x.dll x.dylib x.wasm".split()
        ),
        ("start.pth", "path-file"),
        ("plugin.pyc", "compiled-code"),
        ("plugin.pyo", "compiled-code"),
        ("more.whl", "packed-code"),
        ("more.egg", "packed-code"),
        ("more.pyz", "packed-code"),
    ],
)
def test_code_that_nobody_can_read_is_told_by_its_name(root, name, rule):
    (root / name).write_bytes(b"anything")
    assert rules(root) == {name: rule}


@pytest.mark.parametrize(
    ("head", "rule"),
    [
        (b"\x7fELF\2\1\1\0", "native-code"),
        (b"MZ\x90\0\3", "native-code"),
        (b"\xcf\xfa\xed\xfe\7\0", "native-code"),
        (b"\0asm\1\0\0\0", "native-code"),
        (b"!<arch>\nfoo.o/", "native-code"),
        (b"\xa7\r\r\n\0\0\0\0", "compiled-code"),
    ],
)
def test_code_that_nobody_can_read_is_told_by_its_first_bytes(root, head, rule):
    (root / "data.txt").write_bytes(head + b"\0" * 40)
    assert rules(root) == {"data.txt": rule}


def test_a_text_that_begins_like_a_program_is_a_text(root):
    (root / "data.txt").write_bytes(b"MZ is how Mark Zbikowski signed.\n")
    assert rules(root) == {}


def test_compiled_files_and_version_control_are_told_once(root):
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "plugin.cpython-311.pyc").write_bytes(b"")
    (root / ".git" / "objects").mkdir(parents=True)
    assert rules(root) == {"__pycache__": "compiled-code", ".git": "foreign-directory"}


def test_what_an_installer_does_to_bundled_files_is_no_oddity(root, tmp_path):
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "plugin.cpython-311.pyc").write_bytes(b"")
    os.link(root / "plugin.py", tmp_path / "in the installer's cache")
    before = read_content(root, bundled=True)
    assert before.oddities == ()
    assert "plugin.py" in before.files
    assert not any("__pycache__" in path for path in before.files)


@pytest.mark.parametrize("name", [b"odd\xff.py", "a\u202eb.py".encode(), b"two\nlines.py", b"back\\slash.py"])
def test_a_name_that_a_reader_would_not_see_is_told_in_letters_that_can_be_seen(root, name):
    Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(b"x = 1\n")
    [finding] = read_content(root).oddities
    assert finding.rule == "odd-name"
    assert finding.file.isprintable()
    assert finding.message.isprintable()


def test_too_much_is_told_and_not_read(root):
    (root / "large.txt").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    assert rules(root) == {"large.txt": "too-much"}


def test_too_many_files_end_the_reading(root):
    for number in range(MAX_FILES):
        (root / f"{number:03}.txt").write_bytes(b"")
    read = read_content(root)
    assert len(read.files) == MAX_FILES
    assert [finding.rule for finding in read.oddities] == ["too-much"]


def test_too_many_bytes_end_the_reading(root):
    for number in range(6):
        (root / f"{number}.txt").write_bytes(b"x" * (MAX_FILE_BYTES - 10))
    read = read_content(root)
    assert sum(map(len, read.files.values())) <= 4 * MAX_FILE_BYTES
    assert "4 MiB" in read.oddities[-1].message


def test_directories_without_end_are_not_walked(root):
    deep = root
    for _ in range(12):
        deep = deep / "d"
        deep.mkdir()
    (deep / "x.py").write_bytes(b"")
    for number in range(1100):
        (root / "d" / f"e{number}").mkdir()
    read = read_content(root)
    assert {finding.rule for finding in read.oddities} == {"too-much"}
    assert not any(path.endswith("x.py") for path in read.files)


def test_a_file_that_is_swapped_for_a_link_while_it_is_read_is_not_followed(root, tmp_path, before_opening):
    (tmp_path / "secret").write_text("secret")

    def swap():
        (root / "README.md").unlink()
        (root / "README.md").symlink_to(tmp_path / "secret")

    before_opening("README.md", swap)
    read = read_content(root)
    assert [(finding.file, finding.rule) for finding in read.oddities] == [("README.md", "link")]
    assert "README.md" not in read.files


def test_a_directory_that_is_swapped_for_a_link_while_it_is_walked_is_not_followed(root, tmp_path, before_opening):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret.txt").write_text("secret")
    (root / "inner").mkdir()

    def swap():
        (root / "inner").rmdir()
        (root / "inner").symlink_to(tmp_path / "home")

    before_opening("inner", swap)
    read = read_content(root)
    assert [(finding.file, finding.rule) for finding in read.oddities] == [("inner", "link")]
    assert b"secret" not in b"".join(read.files.values())


def test_a_directory_that_is_swapped_after_it_was_opened_is_read_as_it_was(root, tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "more.py").write_text("secret")
    (root / "inner").mkdir()
    (root / "inner" / "more.py").write_text("mine")
    real = os.scandir

    def swap(handle):
        listed = real(handle)
        if (root / "inner").is_dir() and not (root / "inner").is_symlink() and os.fstat(handle).st_ino == inner:
            (root / "inner").rename(tmp_path / "away")
            (root / "inner").symlink_to(tmp_path / "home")
        return listed

    inner = (root / "inner").stat().st_ino
    monkeypatch.setattr(content.os, "scandir", swap)
    assert read_content(root).files["inner/more.py"] == b"mine"
    assert (root / "inner").is_symlink()


def test_nothing_outside_is_read_while_somebody_swaps_without_pause(root, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "more.py").write_text("secret")
    (root / "inner").mkdir()
    (root / "inner" / "more.py").write_text("mine")
    ended = threading.Event()

    def swap():
        while not ended.is_set():
            (root / "inner").rename(tmp_path / "away")
            (root / "inner").symlink_to(tmp_path / "home")
            (root / "inner").unlink()
            (tmp_path / "away").rename(root / "inner")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        reads = [read_content(root) for _ in range(300)]
    finally:
        ended.set()
        swapper.join()
    assert {read.files.get("inner/more.py", b"mine") for read in reads} == {b"mine"}
    assert {finding.rule for read in reads for finding in read.oddities} <= {"link", "unreadable"}


def test_a_pipe_that_takes_a_files_place_is_not_waited_for(root, before_opening):
    def swap():
        (root / "README.md").unlink()
        os.mkfifo(root / "README.md")

    before_opening("README.md", swap)
    assert rules(root) == {"README.md": "special-file"}


def test_a_file_that_grows_while_it_is_read_is_cut_off(root, monkeypatch):
    real = os.fstat

    def grow(handle):
        found = real(handle)
        if Path(f"/proc/self/fd/{handle}").readlink().name == "README.md":
            with (root / "README.md").open("ab") as file:
                file.write(b"x" * (MAX_FILE_BYTES + 10))
        return found

    monkeypatch.setattr(content.os, "fstat", grow)
    assert rules(root) == {"README.md": "too-much"}


def test_a_file_that_goes_while_it_is_read_is_no_part_of_the_plugin(root, monkeypatch):
    real = os.stat

    def go(name, **named):
        if name == "README.md":
            (root / "README.md").unlink()
        return real(name, **named)

    monkeypatch.setattr(content.os, "stat", go)
    read = read_content(root)
    assert list(read.files) == ["plugin.json", "plugin.py"]
    assert read.oddities == ()


def test_what_cannot_be_read_is_told(root, before_opening):
    def refuse():
        raise PermissionError(13, "Permission denied")

    before_opening("README.md", refuse)
    [finding] = read_content(root).oddities
    assert (finding.rule, finding.message) == ("unreadable", "README.md cannot be read: permission denied.")


def test_no_descriptor_is_left_open(root, tmp_path):
    (root / "inner").mkdir()
    (root / "link").symlink_to(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    read_content(root)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
