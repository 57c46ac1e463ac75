from pathlib import Path

import pytest

from kagura_kernel.sandbox.supervisor.etc import write_etc


@pytest.fixture
def host(tmp_path: Path) -> Path:
    etc = tmp_path / "etc"
    (etc / "ssl" / "certs").mkdir(parents=True)
    (etc / "ssl" / "private").mkdir()
    (etc / "ssl" / "private" / "key.pem").write_text("PRIVATE")
    (etc / "ssl" / "certs" / "ca.pem").write_text("public")
    (etc / "ssl" / "certs" / "abc.0").symlink_to("ca.pem")
    (etc / "ld.so.cache").write_bytes(b"cache" * 100_000)
    (etc / "shadow").write_text("root:$6$hash")
    (etc / "passwd").write_text("root:x:0:0\nalice:x:1001:1001:Alice Example\n")
    (etc / "hostname").write_text("alices-laptop\n")
    (etc / "resolv.conf").write_text("nameserver 10.1.2.3\n")
    (etc / "localtime").symlink_to(tmp_path / "zone")
    (tmp_path / "zone").write_bytes(b"TZif")
    return etc


def test_programs_find_what_they_need_and_nothing_names_the_host(host: Path, tmp_path: Path) -> None:
    target = tmp_path / "box"
    target.mkdir()
    write_etc(str(target), str(host))
    assert (target / "ld.so.cache").read_bytes() == b"cache" * 100_000
    assert (target / "ssl" / "certs" / "ca.pem").read_text() == "public"
    assert str((target / "ssl" / "certs" / "abc.0").readlink()) == "ca.pem"
    assert (target / "localtime").read_bytes() == b"TZif"
    assert (target / "resolv.conf").read_text() == ""
    assert (target / "hostname").read_text() == "box\n"
    everything = b"".join(path.read_bytes() for path in target.rglob("*") if path.is_file())
    for private in (b"alice", b"10.1.2.3", b"PRIVATE", b"$6$"):
        assert private not in everything
    assert not (target / "shadow").exists()
    assert not (target / "ssl" / "private").exists()


def test_there_is_one_user_and_nobody(host: Path, tmp_path: Path) -> None:
    target = tmp_path / "box"
    target.mkdir()
    write_etc(str(target), str(host))
    users = [line.split(":")[0] for line in (target / "passwd").read_text().splitlines()]
    assert users == ["agent", "nobody"]


def test_a_host_without_any_of_it_is_fine(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    write_etc(str(tmp_path / "box"), str(tmp_path / "missing"))
    assert sorted(path.name for path in (tmp_path / "box").iterdir()) == [
        "group",
        "hostname",
        "hosts",
        "nsswitch.conf",
        "passwd",
        "resolv.conf",
    ]
