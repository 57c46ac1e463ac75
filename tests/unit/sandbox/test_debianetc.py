import stat
from pathlib import Path

import pytest

from kagura_kernel.sandbox.supervisor.root_layer import write_system

SECRETS = {
    "etc/shadow": "root:$6$SECRET:1::::::",
    "etc/ssh/ssh_host_ed25519_key": "SECRET",
    "etc/machine-id": "SECRET",
    "etc/ssl/private/key.pem": "SECRET",
    "etc/environment": "TOKEN=SECRET",
    "etc/profile.d/token.sh": "export TOKEN=SECRET",
    "etc/security/limits.conf": "alice hard nproc SECRET",
    "etc/apt/apt.conf": 'Acquire::http::Proxy "http://me:SECRET@proxy";',
    "etc/apt/apt.conf.d/proxy": 'Acquire::http::Proxy "http://me:SECRET@proxy";',
    "etc/apt/auth.conf": "machine example.org login me password SECRET",
    "etc/apt/auth.conf.d/one": "machine example.org login me password SECRET",
    "etc/apt/sources.list.d/private.list": "deb https://me:SECRET@example.org/debian stable main",
    "etc/apt/sources.list.d/private.sources": "Types: deb\nURIs: https://SECRET@example.org/debian\n",
    "etc/apt/sources.list.d/old.list.disabled": "deb https://SECRET.example.org/debian stable main",
    "etc/cron.d/job": "* * * * * root TOKEN=SECRET job",
    "var/cache/debconf/passwords.dat": "SECRET",
    "var/lib/apt/lists/private.example.org_SECRET": "SECRET",
    "var/log/apt/term.log": "SECRET",
    "root/.bashrc": "SECRET",
}
SHOWN = {
    "etc/adduser.conf": "FIRST_UID=1000\n",
    "etc/pam.d/su": "auth sufficient pam_rootok.so\n",
    "etc/apt/sources.list": "deb http://mirror.example.org/debian bookworm main\n",
    "etc/apt/sources.list.d/more.sources": "Types: deb\nURIs: http://mirror.example.org/debian\n",
    "etc/apt/trusted.gpg.d/debian.asc": "public key\n",
    "var/lib/apt/extended_states": "Package: a\nAuto-Installed: 1\n",
}
PASSWD = """root:x:0:0:Alice the administrator:/root:/bin/zsh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
alice:x:1001:1001:Alice Example:/home/alice:/bin/bash
a broken line
"""
GROUP = "root:x:0:\ndaemon:x:1:\nssl-cert:x:103:postgres,alice\nalice:x:1001:\nnogroup:x:65534:\n"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    for name, text in {**SECRETS, **SHOWN, "etc/passwd": PASSWD, "etc/group": GROUP}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def tree(tmp_path: Path, host: Path) -> Path:
    made = tmp_path / "tree"
    made.mkdir()
    write_system(str(made), str(host))
    return made


def test_no_secret_of_the_host_is_in_it(tree: Path) -> None:
    everything = [path for path in tree.rglob("*") if path.is_file()]
    assert everything
    assert [path for path in everything if b"SECRET" in path.read_bytes() or "SECRET" in path.name] == []


def test_what_packages_need_is_shown(tree: Path) -> None:
    for name, text in SHOWN.items():
        assert (tree / name).read_text() == text


def test_a_file_that_only_some_may_read_is_not_shown(host: Path, tmp_path: Path) -> None:
    (host / "etc/adduser.conf").chmod(0o640)
    (host / "etc/apt/sources.list").chmod(0o600)
    (host / "etc/apt/trusted.gpg.d").chmod(0o700)
    made = tmp_path / "other"
    made.mkdir()
    write_system(str(made), str(host))
    for name in ("etc/adduser.conf", "etc/apt/sources.list", "etc/apt/trusted.gpg.d"):
        assert not (made / name).exists()


def test_accounts_are_the_systems_and_nobody_has_a_password(tree: Path) -> None:
    users = [line.split(":") for line in (tree / "etc/passwd").read_text().splitlines()]
    assert [user[0] for user in users] == ["root", "daemon", "_apt", "postgres", "nobody", "agent"]
    assert "alice" not in (tree / "etc/passwd").read_text().lower()
    assert users[0] == ["root", "x", "0", "0", "root", "/root", "/bin/bash"]
    shadow = [line.split(":") for line in (tree / "etc/shadow").read_text().splitlines()]
    assert [row[0] for row in shadow] == [user[0] for user in users]
    assert {row[1] for row in shadow} == {"*"}
    assert stat.S_IMODE((tree / "etc/shadow").stat().st_mode) == 0o640


def test_groups_keep_only_members_that_exist(tree: Path) -> None:
    groups = dict(line.split(":", 1) for line in (tree / "etc/group").read_text().splitlines())
    assert groups["ssl-cert"] == "x:103:postgres"
    assert "alice" not in groups
    assert {"root", "daemon", "agent", "nogroup"} <= set(groups)


def test_a_host_without_any_of_it_still_gives_a_system(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "tree").mkdir()
    write_system(str(tmp_path / "tree"), str(tmp_path / "bare"))
    assert (tmp_path / "tree/var/cache/apt/archives/partial").is_dir()
    assert "root:x:0:0" in (tmp_path / "tree/etc/passwd").read_text()
