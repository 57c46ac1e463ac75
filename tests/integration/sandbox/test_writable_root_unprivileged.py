"""A writable root for an ordinary user, by a range of ids that is theirs. Runs on the system's Python, as nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .as_nobody import NOBODY, boxes_of

FIRST = 1_500_000_000

Run = Callable[..., dict]

# In mounts of its own, so that nothing of the machine's register of ids changes.
AS_NOBODY = 'mount --bind "$1" /etc/subuid; mount --bind "$1" /etc/subgid; shift; exec setpriv "$@"'


@pytest.fixture
def project() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp())
    (root / "notes.md").write_text("notes\n")
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def run(project: Path, tmp_path: Path) -> Run:
    if os.geteuid() != 0 or not Path("/var/lib/dpkg/status").exists():
        pytest.skip("needs root on a Debian system")

    def run_lines(*lines: str, register: str = f"nobody:{FIRST}:65536\n") -> dict:
        (tmp_path / "register").write_text(register)
        (tmp_path / "register").chmod(0o644)
        mapped = ["sh", "-c", AS_NOBODY, "sh", str(tmp_path / "register")]
        identity = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--inh-caps=-all"]
        asked = {"workspace": str(project), "writable_root": True, "lines": lines}
        [answer] = boxes_of(asked, uid=0, through=["unshare", "--mount", *mapped, *identity])
        return answer

    return run_lines


@pytest.fixture
def package(project: Path, tmp_path: Path) -> str:
    tree = tmp_path / "package"
    fields = "Package: hello-kagura\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\n"
    script = "#!/bin/sh\nset -e\nadduser --system --group --quiet hello-kagura\nchown hello-kagura /usr/share/hello\n"
    files = {
        "DEBIAN/control": f"{fields}Description: says hello\n",
        "DEBIAN/postinst": script,
        "usr/bin/hello-kagura": "#!/bin/sh\necho hello from a package\n",
        "usr/share/hello/data": "data\n",
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
        (tree / name).chmod(0o755 if text.startswith("#!") else 0o644)
    made = project / "hello.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True, capture_output=True)
    made.chmod(0o644)
    return made.name


needs_uidmap = pytest.mark.skipif(shutil.which("newuidmap") is None, reason="needs newuidmap: apt install uidmap")


@needs_uidmap
def test_a_package_is_installed_with_users_from_the_callers_own_range(run, package):
    answer = run(
        f"apt-get install -y ./{package} && hello-kagura",
        "stat -c %U /usr/share/hello; id -u; cat /proc/self/uid_map",
        "echo more >> notes.md; echo x > new; chown www-data new; rm hello.deb; stat -c %U new",
        "apt-get purge -y hello-kagura && dpkg --audit",
        "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status",
        "mount -t tmpfs none /mnt || unshare -m id || chroot / id || mknod /x c 1 5 || ls /root/.bashrc",
        "cat /etc/shadow | cut -d: -f2 | sort -u",
    )
    codes = [code for code, _, _ in answer["answers"]]
    texts = [text for _, text, _ in answer["answers"]]
    assert codes == [0, 0, 0, 0, 0, 2, 0], answer["answers"]
    assert texts[0].endswith("hello from a package\n")
    assert texts[1].split("\n")[:2] == ["hello-kagura", "0"]
    assert texts[2] == "www-data\n"
    wanted = "00000000800000fb"
    assert texts[4].split() == ["CapEff:", wanted, "CapBnd:", wanted, "NoNewPrivs:", "1", "Seccomp:", "2"]
    # No password is any of these.
    assert set(texts[6].split()) <= {"*", "!"}
    assert sorted(map(tuple, answer["changes"])) == [
        ("added", "new"),
        ("deleted", "hello.deb"),
        ("modified", "notes.md"),
    ]
    assert any("cannot be replaced" in note for note in answer["notes"])


@needs_uidmap
def test_without_a_range_of_ones_own_it_is_said_how_to_get_one(run):
    for register in ("", "somebody:100000:65536\n", f"nobody:{FIRST}:100\n"):
        answer = run("true", register=register)
        assert "a range of ids that is yours" in answer["refused"]
        assert "usermod --add-subuids" in answer["refused"]
