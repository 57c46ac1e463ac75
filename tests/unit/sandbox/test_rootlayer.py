import os
import socket
from pathlib import Path

import pytest

from kagura_kernel.sandbox.supervisor.root_layer import is_debian, unreadable


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    root = tmp_path / "usr"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("everybody's")
    (root / "share" / "secret").mkdir(parents=True)
    (root / "share" / "secret" / "rules").write_text("root's")
    return root


def test_what_everybody_may_read_is_shown(programs: Path) -> None:
    (programs / "link").symlink_to("/etc/shadow")
    assert list(unreadable(str(programs))) == []


def test_a_file_that_others_may_not_read_is_found(programs: Path) -> None:
    (programs / "bin" / "tool").chmod(0o4750)
    assert list(unreadable(str(programs))) == ["bin/tool"]


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o754, 0o751])
def test_a_directory_that_others_may_not_enter_and_list_is_found_as_a_whole(programs: Path, mode: int) -> None:
    (programs / "share" / "secret").chmod(mode)
    assert list(unreadable(str(programs))) == ["share/secret"]


def test_what_is_neither_file_nor_directory_is_found_whatever_its_mode(programs: Path) -> None:
    os.mkfifo(programs / "pipe", 0o666)
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(programs, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        (programs / "socket").chmod(0o777)
        assert sorted(unreadable(str(programs))) == ["pipe", "socket"]


def test_a_system_is_debians_when_dpkg_keeps_its_books_there(tmp_path: Path) -> None:
    assert not is_debian(str(tmp_path))
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text("")
    assert is_debian(str(tmp_path))
