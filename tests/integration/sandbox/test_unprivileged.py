"""Boxes of an ordinary user: another way of building them, the same walls. Runs on the system's Python, as nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534

PROGRAM = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kagura_kernel.domain.commands import shell_command
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend

async def main():
    backend = BubblewrapBackend()
    probe = await backend.probe()
    if not probe.ok:
        print(json.dumps({"probe": probe.reason}))
        return
    box = await backend.start(BoxSpec(workspace=Path(sys.argv[2])))
    try:
        answers = []
        for line in json.loads(sys.argv[3]):
            result = await box.run(shell_command(line))
            answers.append([result.exit_code, result.stdout.text])
        changes = [[change.status, change.path] for change in await box.changes()]
        print(json.dumps({"answers": answers, "changes": changes, "notes": box.notes}))
    finally:
        await box.close()
        await backend.close()

asyncio.run(main())
"""


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
    python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.access(path, os.X_OK)), None)
    if os.geteuid() != 0:
        pytest.skip("the walls suite itself runs as an ordinary user here")
    if python is None:
        pytest.skip("needs a Python that every user may run: apt install python3")

    def run_lines(*lines: str) -> dict:
        result = subprocess.run(
            [python, "-I", "-S", "-B", "-c", PROGRAM, str(ROOT), str(project), json.dumps(lines)],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        answer = json.loads(result.stdout)
        assert "probe" not in answer, answer
        return answer

    return run_lines


def test_a_box_works_and_the_project_stays_as_it_was(run, project: Path) -> None:
    answer = run(
        "echo more >> notes.md && rm -r old && mkdir old && touch old/new && cat notes.md",
        "touch .git/hook",
        "touch /usr/x || touch /etc/x || touch /x",
        "python -c 'print(6 * 7)'",
    )
    codes = [code for code, _ in answer["answers"]]
    assert codes[0] == 0
    assert answer["answers"][0][1] == "notes\nmore\n"
    assert codes[1] != 0
    assert codes[2] != 0
    assert answer["answers"][3] == [0, "42\n"]
    assert sorted(map(tuple, answer["changes"])) == [
        ("added", "old/new"),
        ("deleted", "old/file"),
        ("modified", "notes.md"),
    ]
    assert (project / "notes.md").read_text() == "notes\n"
    assert (project / "old" / "file").exists()


def test_the_walls_are_the_same(run) -> None:
    answer = run(
        "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status",
        "unshare -U true",
        "ls /root /etc/shadow",
        "ls -d /proc/[0-9]* | wc -l",
        "python -c 'import socket; print([name for _, name in socket.if_nameindex()])'",
        "ls /proc/1/fd",
    )
    texts = [text for _, text in answer["answers"]]
    assert texts[0].split() == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert [code != 0 for code, _ in answer["answers"]] == [False, True, True, False, False, True]
    assert int(texts[3]) <= 6
    assert texts[4] == "['lo']\n"


def test_memory_that_no_limit_knows_cannot_be_had_where_nobody_counts(run) -> None:
    answer = run(
        "python -c \"import os; os.memfd_create('x')\"",
        'python -c "import ctypes; exit(ctypes.CDLL(None).shmget(0, 4096, 0o1600) < 0)"',
        "cat /proc/self/oom_score_adj",
    )
    if not any("memory" in note for note in answer["notes"]):
        pytest.skip("this system lets every user make control groups")
    assert any("memfd and System V memory are refused" in note for note in answer["notes"])
    assert [code for code, _ in answer["answers"]] == [1, 1, 0]
    assert int(answer["answers"][2][1]) >= 500


def test_limits_that_cannot_be_set_are_told(run) -> None:
    answer = run("ulimit -u -n -c -d | wc -l", "python -c 'b = bytearray(6 << 30)'")
    assert answer["answers"][1][0] != 0
    if not any("memory" in note for note in answer["notes"]):
        pytest.skip("this system lets every user make control groups")
    assert any("CPU" in note for note in answer["notes"])


def test_the_back_end_needs_nothing_but_the_standard_library() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "import kagura_kernel.sandbox.bubblewrap, kagura_kernel.sandbox.supervisor.main"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)
