"""One server for each data directory, and a lock that nobody has to clear away."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from kagura_kernel.cockpit.served import LOCK, only_server, server_of
from kagura_kernel.domain.errors import ConfigurationError, ServedAlready

_HOLD = """
import sys
from pathlib import Path
from kagura_kernel.cockpit.served import only_server
with only_server(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_server_is_refused_by_the_name_of_the_first(tmp_path):
    with only_server(tmp_path / "home"):
        with pytest.raises(ServedAlready, match=str(os.getpid())) as refused, only_server(tmp_path / "home"):
            pass
        assert (refused.value.pid, refused.value.code) == (os.getpid(), "ERR_SERVED_ALREADY")
    with only_server(tmp_path / "home"):
        pass


def test_another_data_directory_has_a_server_of_its_own(tmp_path):
    with only_server(tmp_path / "one"), only_server(tmp_path / "two"):
        assert server_of(tmp_path / "one") == server_of(tmp_path / "two") == os.getpid()


def test_the_lock_dies_with_a_process_that_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert server_of(tmp_path) == other.pid
        with pytest.raises(ServedAlready), only_server(tmp_path):
            pass
        other.kill()
        other.wait()
    assert (tmp_path / LOCK).read_text() == f"{other.pid}\n"
    assert server_of(tmp_path) is None
    with only_server(tmp_path):
        assert server_of(tmp_path) == os.getpid()


def test_looking_makes_nothing_and_nobody_else_may_read_what_is_made(tmp_path):
    assert server_of(tmp_path / "home") is None
    assert not (tmp_path / "home").exists()
    with only_server(tmp_path / "home"):
        assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "home" / LOCK).stat().st_mode) == 0o600


def test_a_place_where_nothing_can_be_locked_is_told_and_not_served(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"serve.lock cannot be locked"), only_server(tmp_path / "file"):
        pass
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"serve.lock cannot be locked"), only_server(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()
