"""Boxes of an ordinary user: another way of building them, the same walls. Runs on the system's Python, as nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .as_nobody import NOBODY, ROOT, boxes_of


@pytest.fixture
def project():
    """A directory that nobody owns; pytest's own may only be entered by whoever runs the tests."""
    root = Path(tempfile.mkdtemp())
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\n")
    (root / "notes.md").write_text("notes\n")
    (root / "old").mkdir()
    (root / "old" / "file").write_text("old\n")
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def run(project: Path):
    def run_lines(*lines: str) -> dict:
        [answer] = boxes_of({"workspace": str(project), "lines": lines})
        assert "refused" not in answer, answer
        return answer

    return run_lines


def test_a_box_works_and_the_project_stays_as_it_was(run, project):
    answer = run(
        "echo more >> notes.md && rm -r old && mkdir old && touch old/new && cat notes.md",
        "touch .git/hook",
        "touch /usr/x || touch /etc/x || touch /x",
        "python -c 'print(6 * 7)'",
    )
    codes = [code for code, *_ in answer["answers"]]
    assert codes[0] == 0
    assert answer["answers"][0][1] == "notes\nmore\n"
    assert codes[1] != 0
    assert codes[2] != 0
    assert answer["answers"][3][:2] == [0, "42\n"]
    assert sorted(map(tuple, answer["changes"])) == [
        ("added", "old/new"),
        ("deleted", "old/file"),
        ("modified", "notes.md"),
    ]
    assert (project / "notes.md").read_text() == "notes\n"
    assert (project / "old" / "file").exists()


def test_the_walls_are_the_same(run):
    answer = run(
        "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status",
        "unshare -U true",
        "ls /root /etc/shadow",
        "ls -d /proc/[0-9]* | wc -l",
        "python -c 'import socket; print([name for _, name in socket.if_nameindex()])'",
        "ls /proc/1/fd",
    )
    texts = [text for _, text, _ in answer["answers"]]
    assert texts[0].split() == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert [code != 0 for code, *_ in answer["answers"]] == [False, True, True, False, False, True]
    assert int(texts[3]) <= 6
    assert texts[4] == "['lo']\n"


def test_memory_that_no_limit_knows_cannot_be_had_where_nobody_counts(run):
    answer = run(
        "python -c \"import os; os.memfd_create('x')\"",
        'python -c "import ctypes; exit(ctypes.CDLL(None).shmget(0, 4096, 0o1600) < 0)"',
        "cat /proc/self/oom_score_adj",
    )
    if not any("memory" in note for note in answer["notes"]):
        pytest.skip("this system lets every user make control groups")
    assert any("memfd and System V memory are refused" in note for note in answer["notes"])
    assert [code for code, *_ in answer["answers"]] == [1, 1, 0]
    assert int(answer["answers"][2][1]) >= 500


def test_limits_that_cannot_be_set_are_told(run):
    answer = run("ulimit -u -n -c -d | wc -l", "python -c 'b = bytearray(6 << 30)'")
    assert answer["answers"][1][0] != 0
    if not any("memory" in note for note in answer["notes"]):
        pytest.skip("this system lets every user make control groups")
    assert any("CPU" in note for note in answer["notes"])


def test_the_back_end_needs_nothing_but_the_standard_library():
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "import kagura_kernel.sandbox.bubblewrap, kagura_kernel.sandbox.supervisor.main"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)


FIRST = 1_500_000_000

Run = Callable[..., dict]

# In mounts of its own, so that nothing of the machine's register of ids changes.
AS_NOBODY = 'mount --bind "$1" /etc/subuid; mount --bind "$1" /etc/subgid; shift; exec setpriv "$@"'


@pytest.fixture
def project_of_writable_root_unprivileged() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp())
    (root / "notes.md").write_text("notes\n")
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def run_of_writable_root_unprivileged(project_of_writable_root_unprivileged: Path, tmp_path: Path) -> Run:
    if os.geteuid() != 0 or not Path("/var/lib/dpkg/status").exists():
        pytest.skip("needs root on a Debian system")

    def run_lines(*lines: str, register: str = f"nobody:{FIRST}:65536\n") -> dict:
        (tmp_path / "register").write_text(register)
        (tmp_path / "register").chmod(0o644)
        mapped = ["sh", "-c", AS_NOBODY, "sh", str(tmp_path / "register")]
        identity = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--inh-caps=-all"]
        asked = {"workspace": str(project_of_writable_root_unprivileged), "writable_root": True, "lines": lines}
        [answer] = boxes_of(asked, uid=0, through=["unshare", "--mount", *mapped, *identity])
        return answer

    return run_lines


@pytest.fixture
def package(project_of_writable_root_unprivileged: Path, tmp_path: Path) -> str:
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
    made = project_of_writable_root_unprivileged / "hello.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True, capture_output=True)
    made.chmod(0o644)
    return made.name


needs_uidmap = pytest.mark.skipif(shutil.which("newuidmap") is None, reason="needs newuidmap: apt install uidmap")


@needs_uidmap
def test_a_package_is_installed_with_users_from_the_callers_own_range(run_of_writable_root_unprivileged, package):
    answer = run_of_writable_root_unprivileged(
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
def test_without_a_range_of_ones_own_it_is_said_how_to_get_one(run_of_writable_root_unprivileged):
    for register in ("", "somebody:100000:65536\n", f"nobody:{FIRST}:100\n"):
        answer = run_of_writable_root_unprivileged("true", register=register)
        assert "a range of ids that is yours" in answer["refused"]
        assert "usermod --add-subuids" in answer["refused"]
