"""A kernel is killed at any of ten points of a run of ten steps: a fresh one ends the work, each deed done once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.journal.checkpoints import history
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import runs
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.killed_run import MARK, MOMENTS, SECRET
from kagura_kernel.testing.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DOUBTFUL = {"between-answer-and-command", "between-command-and-result"}
"""Moments after which nobody knows whether the host's command was carried out."""

THROUGH = ("between-command-and-result", "between-a-box-result-and-checkpoint", "before-the-last-row")
"""Moments that are tried with changes that reach the project at once, too."""


class Place:
    """A project, a data directory, and the file that stands for the world outside."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project, self.side = folder / "home", folder / "project", folder / "side"
        self.project.mkdir(parents=True)
        (self.project / "seed.txt").write_text("of the project\n")
        if os.geteuid() == 0:
            for directory in (self.project, folder, *folder.parents[:3]):
                directory.chmod(0o755)

    def run(self, **order: str) -> subprocess.CompletedProcess[str]:
        """One process, to its end."""
        told = {"home": str(self.home), "project": str(self.project), "side": str(self.side)} | order
        return subprocess.run(
            [sys.executable, "-m", "kagura_kernel.testing.killed_run", json.dumps(told)],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def result(self, **order: str) -> dict[str, Any]:
        """What came of a process that lived."""
        done = self.run(**order)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def files(self) -> dict[str, str]:
        """The project as it is."""
        return {
            str(path.relative_to(self.project)): str(path.readlink()) if path.is_symlink() else path.read_text()
            for path in sorted(self.project.rglob("*"))
            if path.is_symlink() or path.is_file()
        }

    def holding(self, secret: str) -> list[str]:
        """Files of the data directory that hold a text."""
        return [str(file) for file in self.home.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[dict[str, Any], dict[str, str]]]:
    """What comes of the run when nobody kills it, by write mode."""
    known: dict[str, tuple[dict[str, Any], dict[str, str]]] = {}

    def result(write: str) -> tuple[dict[str, Any], dict[str, str]]:
        if write not in known:
            place = Place(tmp_path_factory.mktemp("undisturbed") / write)
            known[write] = place.result(write=write), place.files()
            assert known[write][0]["status"] == "done"
            assert known[write][0]["failed"] == []
            assert place.side.read_text() == "first\nsecond\n"
        return known[write]

    return result


@pytest.mark.parametrize(
    ("moment", "write"), [*((one, "ask") for one in MOMENTS), *((one, "through") for one in THROUGH)]
)
def test_a_fresh_kernel_ends_the_work_and_repeats_nothing(
    moment: str, write: str, tmp_path: Path, undisturbed: Callable[[str], tuple[dict[str, Any], dict[str, str]]]
) -> None:
    place = Place(tmp_path / "place")
    killed = place.run(moment=moment, write=write)
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    journal = Journal.open(place.home)
    try:
        [first] = runs(journal)
        assert history(journal, first.run_id), "there is nothing to go on from"
    finally:
        journal.close()

    ended = place.result(resume=first.run_id)
    expected, files = undisturbed(write)
    assert ended["status"] == "done", ended
    assert place.side.read_text() == "first\nsecond\n"
    assert place.files() == files
    if write == "ask":
        assert ended["changes"] == expected["changes"]
    assert ended["asked"].count("tool") == (1 if moment in DOUBTFUL else 0)
    assert ended["asked"].count("host_command") <= 2
    assert place.holding(SECRET) == []
    wait_until(lambda: processes_with(MARK) == [])
