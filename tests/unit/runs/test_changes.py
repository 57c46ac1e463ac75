from __future__ import annotations

import json
from pathlib import Path

from kagura_kernel.cockpit.intents import LaunchRun
from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.events import AnyEvent, ChangesSettled, ToolFinished
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.runs.changes import MAX_PART_BYTES, MAX_PART_FILES, in_parts
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit


def test_many_files_are_told_in_parts_in_their_order_and_none_is_lost() -> None:
    changes = [FileChange(f"f{n:04}", "added") for n in range(MAX_PART_FILES * 2 + 1)]
    parts = list(in_parts(changes))
    assert [len(part) for part in parts] == [MAX_PART_FILES, MAX_PART_FILES, 1]
    assert [row["path"] for part in parts for row in part] == [change.path for change in changes]


def test_long_diffs_are_told_in_parts_of_bounded_weight() -> None:
    changes = [FileChange(f"f{n}", "added", diff="é" * 32_000) for n in range(30)]
    parts = list(in_parts(changes))
    assert len(parts) > 1
    assert all(len(json.dumps(part, ensure_ascii=False).encode()) <= MAX_PART_BYTES for part in parts)
    assert sum(map(len, parts)) == 30


def test_a_single_file_that_is_too_heavy_is_a_part_of_its_own() -> None:
    changes = [FileChange("a", "added"), FileChange("b", "added", diff="x" * MAX_PART_BYTES), FileChange("c", "added")]
    assert [[row["path"] for row in part] for part in in_parts(changes)] == [["a"], ["b"], ["c"]]


def test_nothing_is_told_for_nothing() -> None:
    assert list(in_parts([])) == []


def test_writing_through_leaves_what_is_protected_alone_and_tells_it_as_such(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    line = "mkdir -p sub/.git .venv/bin; echo x | tee sub/.git/config .venv/pyvenv.cfg .venv/bin/bash a.txt"
    brain = FakeBrain([Ask("bash", {"command": line}), Ask("bash", {"command": "true"}), "Done."])
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[brain])
    try:
        handle = cockpit.launch(LaunchRun(task="do it", project=project, write_mode=WriteMode.THROUGH))
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


def test_writing_through_lets_what_runs_by_itself_wait_for_a_word(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    made = "mkdir -p .vscode; echo x | tee .vscode/tasks.json Makefile a.txt conftest.py > /dev/null"
    brain = FakeBrain(
        [Ask("bash", {"command": made}), Ask("bash", {"command": "rm Makefile; echo y > conftest.py"}), "Done."]
    )
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[brain])
    try:
        handle = cockpit.launch(LaunchRun(task="do it", project=project, write_mode=WriteMode.THROUGH))
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
