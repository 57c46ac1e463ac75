from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cli.run_outcome import NOT_DONE, exit_code
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import SandboxProtocolError
from kagura_kernel.domain.events import AnyEvent, ChangesSettled, ToolFinished
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.domain.tools import FileSystem
from kagura_kernel.membrane.changes import LEFT, Contents, Taken
from kagura_kernel.runs.changes import MAX_PART_BYTES, MAX_PART_FILES, in_parts
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.backend import BoxChange
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit


def test_many_files_are_told_in_parts_in_their_order_and_none_is_lost():
    changes = [FileChange(f"f{n:04}", "added") for n in range(MAX_PART_FILES * 2 + 1)]
    parts = list(in_parts(changes))
    assert [len(part) for part in parts] == [MAX_PART_FILES, MAX_PART_FILES, 1]
    assert [row.path for part in parts for row in part] == [change.path for change in changes]


def test_long_diffs_are_told_in_parts_of_bounded_weight():
    changes = [FileChange(f"f{n}", "added", diff="é" * 32_000) for n in range(30)]
    parts = list(in_parts(changes))
    assert len(parts) > 1
    assert all(
        len(json.dumps([asdict(one) for one in part], ensure_ascii=False).encode()) <= MAX_PART_BYTES for part in parts
    )
    assert sum(map(len, parts)) == 30


def test_a_single_file_that_is_too_heavy_is_a_part_of_its_own():
    changes = [FileChange("a", "added"), FileChange("b", "added", diff="x" * MAX_PART_BYTES), FileChange("c", "added")]
    assert [[row.path for row in part] for part in in_parts(changes)] == [["a"], ["b"], ["c"]]


def test_nothing_is_told_for_nothing():
    assert list(in_parts([])) == []


def test_writing_through_leaves_what_is_protected_alone_and_tells_it_as_such(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    line = "mkdir -p sub/.git .venv/bin; echo x | tee sub/.git/config .venv/pyvenv.cfg .venv/bin/bash a.txt"
    brain = FakeBrain([Ask("bash", {"command": line}), Ask("bash", {"command": "true"}), "Done."])
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[brain])
    try:
        handle = cockpit.launch(RunRequest(task="do it", project=project, write_mode=WriteMode.THROUGH))
        heard: list[AnyEvent] = []
        handle.subscribe(heard.append)
        outcome = handle.result(60)
        assert {change.path: change.state for change in outcome.changes} == {
            ".venv/bin/bash": "protected",
            ".venv/pyvenv.cfg": "protected",
            "a.txt": "applied",
            "sub/.git/config": "protected",
        }
        assert {change.path: change.state for change in cockpit.changes(outcome.run_id)} == {
            change.path: change.state for change in outcome.changes
        }
    finally:
        cockpit.close()
    assert [path.name for path in project.iterdir()] == ["a.txt"]
    assert [(event.applied, event.conflicts) for event in heard if isinstance(event, ChangesSettled)] == [
        (("a.txt",), ())
    ]


def test_writing_through_lets_what_runs_by_itself_wait_for_a_word(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    made = "mkdir -p .vscode; echo x | tee .vscode/tasks.json Makefile a.txt conftest.py > /dev/null"
    brain = FakeBrain(
        [Ask("bash", {"command": made}), Ask("bash", {"command": "rm Makefile; echo y > conftest.py"}), "Done."]
    )
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[brain])
    try:
        handle = cockpit.launch(RunRequest(task="do it", project=project, write_mode=WriteMode.THROUGH))
        heard: list[AnyEvent] = []
        handle.subscribe(heard.append)
        outcome = handle.result(60)
        states = {".vscode/tasks.json": "proposed", "conftest.py": "proposed", "a.txt": "applied"}
        assert [(change.path, change.state) for change in outcome.changes if change.path != "Makefile"] == list(
            states.items()
        )
        assert sorted(path.name for path in project.iterdir()) == ["a.txt"]
        told = next(event.text for event in heard if isinstance(event, ToolFinished))
        assert "waits for a person" in told
        assert "conftest.py" in told
        # What the box took back waits no more, and what waits is what it left.
        assert {c.path: c.state for c in cockpit.changes(outcome.run_id)} == {**states, "Makefile": "discarded"}
        cockpit.apply_changes(outcome.run_id, None, by="a test")
        assert (project / "conftest.py").read_text() == "y\n"
        assert (project / ".vscode" / "tasks.json").exists()
    finally:
        cockpit.close()


THREE = "for name in a b c; do head -c 700000 /dev/urandom > $name; done"
"""Of these only the first one fits into a MiB."""


@pytest.fixture
def cell(tmp_path: Path) -> Callable[..., RunRequest]:
    project = tmp_path / "project"
    project.mkdir()
    return lambda code, **options: RunRequest(task=code, language="bash", project=project, **options)


@pytest.fixture
def cockpit(tmp_path: Path) -> Iterator[Cockpit]:
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), settings=Settings(workspace_mib=1))
    yield cockpit
    cockpit.close()


def states(changes: tuple[FileChange, ...]) -> dict[str, tuple[str, str]]:
    return {change.path: (change.state, change.reason) for change in changes}


@pytest.mark.parametrize(
    ("mode", "code"),
    # What is written through is brought out while the run goes on, and stops it.
    [(WriteMode.ASK, "ERR_CHANGES_INCOMPLETE"), (WriteMode.THROUGH, "ERR_WORKSPACE_TOO_LARGE")],
)
def test_a_bound_that_strikes_ends_the_run_with_a_failure_and_keeps_what_was_brought_out(
    tmp_path, cockpit, cell, mode, code
):
    outcome = cockpit.launch(cell(THREE, write_mode=mode)).result(60)
    assert (outcome.status, outcome.error_code) == ("failed", code)
    assert exit_code(outcome) == NOT_DONE
    assert states(outcome.changes) == {"a": ("proposed", ""), "b": ("protected", LEFT), "c": ("protected", LEFT)}
    assert states(tuple(cockpit.changes(outcome.run_id))) == states(outcome.changes)
    assert cockpit.runs()[0].changed_files == 3
    cockpit.apply_changes(outcome.run_id, by="ann")
    assert [(path.name, path.stat().st_size) for path in (tmp_path / "project").iterdir()] == [("a", 700_000)]


def test_bringing_changes_out_may_take_any_time_while_the_box_answers(cockpit, cell, monkeypatch):
    take, late = Contents.take, itertools.count(100, 100)

    async def slowly(self: Contents, *args: Any) -> Taken:
        # Its loop's clock goes forward, and with it whatever waits for a time.
        loop, seconds = asyncio.get_running_loop(), next(late)
        monkeypatch.setattr(loop, "time", lambda: time.monotonic() + seconds)
        await asyncio.sleep(0)
        return await take(self, *args)

    monkeypatch.setattr(Contents, "take", slowly)
    outcome = cockpit.launch(cell("for n in 1 2 3; do echo $n > f$n; done")).result(60)
    assert (outcome.status, len(outcome.changes)) == ("done", 3)


def test_a_person_who_stops_a_run_while_its_changes_are_brought_out_gets_those_that_are(cockpit, cell, monkeypatch):
    take, hangs = Contents.take, threading.Event()

    async def once(self: Contents, files: FileSystem, told: BoxChange) -> Taken:
        if told.path == "f2":
            hangs.set()
            await asyncio.Event().wait()
        return await take(self, files, told)

    monkeypatch.setattr(Contents, "take", once)
    monkeypatch.setattr("kagura_kernel.runs.run.KILLED_SETTLE_SECONDS", 0.1)
    handle = cockpit.launch(cell("for n in 1 2 3; do echo $n > f$n; done"))
    assert hangs.wait(60)
    handle.kill("ann")
    outcome = handle.result(60)
    assert (outcome.status, outcome.error_code) == ("killed", "ERR_RUN_KILLED")
    assert states(outcome.changes) == {"f1": ("proposed", ""), "f2": ("protected", LEFT), "f3": ("protected", LEFT)}


def test_variables_that_could_not_be_brought_out_are_told_as_missing(cockpit, cell, monkeypatch):
    async def gone(*_: object) -> None:
        raise SandboxProtocolError("box-1", "it said nothing about a file for too long")

    monkeypatch.setattr("kagura_kernel.runs.run.collect_outputs", gone)
    outcome = cockpit.launch(cell("true", outputs=("x", "y"))).result(60)
    assert [name for name, _ in outcome.missing] == ["x", "y"]
    assert "said nothing about a file" in outcome.missing[0][1]
