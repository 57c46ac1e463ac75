"""Boxes of an ordinary user: another way of building them, the same walls. Runs on the system's Python, as nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
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
