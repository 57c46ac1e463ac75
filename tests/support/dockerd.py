"""A Docker daemon of our own for tests: started on demand, shared by every test process, gone with the last of them.

It never touches a daemon, bridge, firewall rule or configuration of this machine. Images are kept in a cache outside
the repository, so that only the first test run builds them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kagura_kernel.sandbox.owner import owner_alive, owner_of

CACHE_VARIABLE = "KAGURA_TEST_CACHE"
_PROGRAMS = {"dockerd": "docker.io", "containerd": "containerd", "runc": "runc", "debootstrap": "debootstrap"}
_PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class TestDaemon:
    __test__ = False

    host: str  # What `DOCKER_HOST` must be to reach it
    home: Path  # Its socket, log and run-time state

    @property
    def pid(self) -> int:
        """Process id of dockerd itself."""
        return int((self.home / "dockerd.pid").read_text())


def why_not() -> str:
    """Why no daemon can be started here, in a sentence that names the cure; empty when one can."""
    if os.geteuid() != 0:
        return "a private Docker daemon needs root: run the tests as root or in a container of their own"
    missing = [package for program, package in _PROGRAMS.items() if shutil.which(program, path=_PATH) is None]
    return f"install it with `apt-get install {' '.join(missing)}`" if missing else ""


def cache_directory() -> Path:
    """Where images and the root file system stay between test runs (`KAGURA_TEST_CACHE` moves it)."""
    path = Path(os.environ.get(CACHE_VARIABLE) or "/var/cache/kagura-kernel-tests")
    path.mkdir(parents=True, exist_ok=True, mode=0o755)
    return path


@contextlib.contextmanager
def shared_daemon(cache: Path | None = None, *, remap: bool = False) -> Iterator[TestDaemon]:
    """The daemon that all test processes share; it ends when the last of them lets go, however that one ended.

    With `remap` it is another one, whose containers live in user namespaces, as with Docker's `userns-remap`; the
    machine's own lists of users stay as they are.
    """
    root = cache or cache_directory()
    home = root / ("run-remapped" if remap else "run")
    home.mkdir(exist_ok=True)
    # What is root in a remapped container is nobody here, and has to find its files all the same.
    home.chmod(0o711 if remap else 0o700)
    with _running(home, root / ("data-remapped" if remap else "data"), remap=remap) as daemon:
        yield daemon


@contextlib.contextmanager
def private_daemon() -> Iterator[TestDaemon]:
    """A daemon with no images that a test may harm; it and its data are gone afterwards."""
    # A socket's path must be short, whatever TMPDIR says.
    home = Path(tempfile.mkdtemp(prefix="kdock-", dir="/tmp"))
    try:
        with _running(home, home / "data") as daemon:
            yield daemon
        _wait_gone(home, 30)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def _running(home: Path, data: Path, *, remap: bool = False) -> Iterator[TestDaemon]:
    data.mkdir(exist_ok=True, mode=0o711)
    (home / "users").touch()
    with (home / "users").open("rb") as users:
        with (home / "start").open("wb") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            # A keeper that is just leaving holds the exclusive lock: this waits until it has left.
            fcntl.flock(users, fcntl.LOCK_SH)
            if not _answers(home):
                _start_keeper(home, data, ["--remap"] if remap else [])
        yield TestDaemon(f"unix://{home / 'docker.sock'}", home)


def _start_keeper(home: Path, data: Path, options: Sequence[str]) -> None:
    (home / "keeper.pid").unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", "tests.support.dockerd_keeper", str(home), str(data), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={"PATH": _PATH, "LANG": "C.UTF-8"},
        check=True,
    )
    deadline = time.monotonic() + 120
    while not _answers(home):
        if time.monotonic() > deadline or not (_keeper_lives(home) or time.monotonic() < deadline - 90):
            log = home / "log"
            tail = log.read_text(errors="replace")[-2000:] if log.exists() else "no log"
            raise RuntimeError(f"The private Docker daemon did not start:\n{tail}")
        time.sleep(0.05)


def _keeper_lives(home: Path) -> bool:
    try:
        return owner_alive(owner_of(int((home / "keeper.pid").read_text())))
    except (OSError, ValueError):
        return False


def _wait_gone(home: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _keeper_lives(home) and time.monotonic() < deadline:
        time.sleep(0.05)


def _answers(home: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        try:
            connection.connect(str(home / "docker.sock"))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
        except OSError:
            return False
