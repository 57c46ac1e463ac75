"""A kernel is killed at any of ten points of a run of ten steps: a fresh one ends the work, each deed done once."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.journal.checkpoints import history
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import runs
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.patience import wait_until
from tests.support.credential_life import Lives
from tests.support.effort import sample
from tests.support.killed_run import MARK, MOMENTS, SECRET

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DOUBTFUL = {"between-answer-and-command", "between-command-and-result"}
"""Moments after which nobody knows whether the host's command was carried out."""

THROUGH = ("between-command-and-result", "between-a-box-result-and-checkpoint", "before-the-last-row")
"""Moments that are tried with changes that reach the project at once, too."""

RESUMING = (
    "kagura_kernel/journal/checkpoint",
    "kagura_kernel/membrane/collect",
    "kagura_kernel/membrane/contents",
    "kagura_kernel/runs/",
    "tests/support/killed_run",
    "tests/integration/house/test_killed_at_ten_points",
)


def state_of(pid: int) -> list[str]:
    """What the system says of a process behind its name, from its state to its exit status."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


class Place:
    """A project, a data directory, and the file that stands for the world outside.

    Args:
        folder: Where it is.
        lives: What starts its processes, each a fresh one.
    """

    def __init__(self, folder: Path, lives: Lives) -> None:
        self.home, self.project, self.side = folder / "home", folder / "project", folder / "side"
        self.told = folder / "told"
        self._lives = lives
        self.project.mkdir(parents=True)
        (self.project / "seed.txt").write_text("of the project\n")
        if os.geteuid() == 0:
            for directory in (self.project, folder, *folder.parents[:3]):
                directory.chmod(0o755)

    def run(self, **order: str) -> int:
        """One process, to its end; its exit code, or the signal that ended it as a negative number."""
        names = ("home", "project", "side", "told")
        pid = self._lives.start(**{name: str(getattr(self, name)) for name in names}, **order)
        try:
            # Whoever started it has not yet asked how it ended.
            wait_until(lambda: state_of(pid)[0] == "Z", 200)
            return os.waitstatus_to_exitcode(int(state_of(pid)[-1]))
        finally:
            self._lives.kill(pid)

    def result(self, **order: str) -> dict[str, Any]:
        """What came of a process that lived."""
        code = self.run(**order)
        assert code == 0, self.told.read_text()
        return json.loads(self.told.read_text())

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
def lives() -> Iterator[Lives]:
    with Lives("tests.support.killed_run") as lives:
        yield lives


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, lives: Lives
) -> Callable[[str], tuple[dict[str, Any], dict[str, str]]]:
    """What comes of the run when nobody kills it, by write mode."""
    known: dict[str, tuple[dict[str, Any], dict[str, str]]] = {}

    def result(write: str) -> tuple[dict[str, Any], dict[str, str]]:
        if write not in known:
            place = Place(tmp_path_factory.mktemp("undisturbed") / write, lives)
            known[write] = place.result(write=write), place.files()
            assert known[write][0]["status"] == "done"
            assert known[write][0]["failed"] == []
            assert place.side.read_text() == "first\nsecond\n"
        return known[write]

    return result


@pytest.mark.parametrize(
    ("moment", "write"),
    sample([*((one, "ask") for one in MOMENTS), *((one, "through") for one in THROUGH)], 5, *RESUMING),
)
def test_a_fresh_kernel_ends_the_work_and_repeats_nothing(moment, write, tmp_path, lives, undisturbed):
    place = Place(tmp_path / "place", lives)
    assert place.run(moment=moment, write=write) == -signal.SIGKILL, place.told.read_text()

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
