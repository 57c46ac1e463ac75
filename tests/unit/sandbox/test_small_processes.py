"""Small processes beside the kernel take the standard library for what it says, wherever this package lies."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import kagura_kernel
from kagura_kernel.runtime import host
from kagura_kernel.sandbox.supervisor import launched as keeper

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="they use what only Linux has")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory that holds the package beside files named like modules of the standard library."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "kagura_kernel").symlink_to(Path(kagura_kernel.__file__).parent)
    for name in ("contextlib", "dataclasses", "json", "pathlib", "select", "socket", "typing"):
        (root / f"{name}.py").write_text(f"open({str(tmp_path / 'told')!r}, 'a').write(__name__ + ' ')\n")
    return root


def test_the_keeper_of_boxes(root: Path, tmp_path: Path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        words = [sys.executable, "-I", "-S", "-c", keeper._PROGRAM, str(root), str(theirs.fileno())]
        process = subprocess.Popen(words, pass_fds=[theirs.fileno()], env={}, stderr=subprocess.PIPE)
    # The end of its socket is its end.
    assert (process.communicate(timeout=30)[1], process.returncode) == (b"", 0)
    assert not (tmp_path / "told").exists()


def test_the_keeper_of_a_host_command(root: Path, tmp_path: Path):
    words = [sys.executable, "-I", "-S", "-c", host._PROGRAM, str(root), str(os.getpid()), "KAGURA=none"]
    # A byte on its input says that nobody has gone, and so there is nothing to stop.
    done = subprocess.run(words, input=b".", env={}, stderr=subprocess.PIPE, timeout=30, check=False)
    assert (done.stderr, done.returncode) == (b"", 0)
    assert not (tmp_path / "told").exists()
