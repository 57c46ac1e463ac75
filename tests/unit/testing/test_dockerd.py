"""The private daemon: whom it serves, what it leaves alone, and that it goes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.dockerd import TestDaemon, private_daemon, shared_daemon, why_not
from tests.support.dockerd_keeper import daemon_commands

needs_daemon = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can be started")


def answers(daemon: TestDaemon) -> bool:
    try:
        return bool(daemon.pid) and (daemon.home / "docker.sock").exists()
    except OSError:
        return False


def gone(daemon: TestDaemon, pid: int, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not answers(daemon) and not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.05)
    return False


def test_it_shares_nothing_with_a_daemon_of_the_machine():
    for argv in daemon_commands(Path("/home-of-it"), Path("/data-of-it")):
        paths = [word for word in argv if word.startswith("/")]
        assert paths
        assert all(path.startswith(("/home-of-it", "/data-of-it")) for path in paths)
    _, dockerd = daemon_commands(Path("/h"), Path("/d"))
    line = " ".join(dockerd)
    assert "--bridge none" in line
    for flag in ("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"):
        assert flag in dockerd


def test_why_not_names_what_to_install(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "root" in why_not()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda *_args, **_kwargs: None)
    assert "apt-get install docker.io containerd runc debootstrap" in why_not()


@needs_daemon
@pytest.mark.docker
def test_a_private_daemon_leaves_neither_process_nor_file():
    with private_daemon() as daemon:
        assert answers(daemon)
        pid = daemon.pid
    assert gone(daemon, pid)
    assert not daemon.home.exists()


@needs_daemon
@pytest.mark.docker
def test_a_shared_daemon_serves_all_and_goes_with_the_last(tmp_path_factory):
    cache = tmp_path_factory.mktemp("d")
    with shared_daemon(cache) as first:
        pid = first.pid
        with shared_daemon(cache) as second:
            assert second.pid == pid
        assert answers(first)
    assert gone(first, pid)


@needs_daemon
@pytest.mark.docker
def test_a_killed_user_counts_as_gone(tmp_path_factory):
    cache = tmp_path_factory.mktemp("d")
    code = (
        "import sys, time, pathlib\n"
        "from tests.support.dockerd import shared_daemon\n"
        "with shared_daemon(pathlib.Path(sys.argv[1])) as daemon:\n"
        "    print(daemon.pid, flush=True); time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(cache)], stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        pid = int(user.stdout.readline())
        user.kill()
    assert gone(TestDaemon("", cache / "run"), pid)
