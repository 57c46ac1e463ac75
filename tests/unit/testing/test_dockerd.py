"""The private daemon: whom it serves, what it leaves alone, and that it goes."""

from pathlib import Path

from tests.support.dockerd import why_not
from tests.support.dockerd_keeper import daemon_commands


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
