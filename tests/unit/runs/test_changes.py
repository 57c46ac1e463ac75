import asyncio
import hashlib
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
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
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.changes import LEFT, Contents, Taken
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.runs.changes import MAX_PART_BYTES, MAX_PART_FILES, in_parts
from kagura_kernel.runs.delegation import take_over, to_restore
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.backend import BoxChange, BoxSpec
from kagura_kernel.testing.box import FakeBackend, FakeBox
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


def test_writing_through_leaves_what_is_protected_alone_and_tells_it_as_such(tmp_path, project):
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


def test_writing_through_lets_what_runs_by_itself_wait_for_a_word(tmp_path, project):
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
        cockpit.changes_desk.apply(outcome.run_id, None, by="a test")
        assert (project / "conftest.py").read_text() == "y\n"
        assert (project / ".vscode" / "tasks.json").exists()
    finally:
        cockpit.close()


THREE = "for name in a b c; do head -c 700000 /dev/urandom > $name; done"
"""Of these only the first one fits into a MiB."""


@pytest.fixture
def cell(project: Path) -> Callable[..., RunRequest]:
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
    cockpit.changes_desk.apply(outcome.run_id, by="ann")
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


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def written(path: str, text: str, **more: Any) -> FileChange:
    return FileChange(path, "modified", size=len(text), new_sha256=sha(text), **more)


def gone(path: str) -> FileChange:
    return FileChange(path, "deleted")


def changes(state: dict[str, str]) -> tuple[FileChange, ...]:
    return tuple(gone(path) if text == "deleted" else written(path, text) for path, text in state.items())


def test_what_is_protected_or_was_never_taken_is_not_restored():
    kept = [written("a", "x"), gone("b"), FileChange("l", "added", "link", target="a")]
    left_out = [written(".git/config", "x", state="protected"), FileChange("huge", "added")]
    assert to_restore([*kept, *left_out]) == tuple(kept)


@pytest.fixture
async def box(project: Path) -> AsyncIterator[FakeBox]:
    (project / "a").write_text("project's a")
    (project / "run").write_text("#!/bin/sh\n")
    (project / "run").chmod(0o755)
    (project / "link").symlink_to("a")
    backend = FakeBackend()
    made = await backend.start(BoxSpec(workspace=project))
    yield made
    await backend.close()


async def stored(blobs: BlobStore, *texts: str) -> None:
    async def once(text: str) -> AsyncIterator[bytes]:
        yield text.encode()

    for text in texts:
        await blobs.put(once(text))


async def test_what_a_child_did_is_in_its_parent_s_box_afterwards(box, blobs, tmp_path):
    await stored(blobs, "child's b", "parent's a", "parent's run", "old")
    await box.files.write("a", b"parent's a")
    await box.files.write("run", b"parent's run")
    await box.files.write("extra", b"old")
    # The child has brought `a` and `run` back, and taken `extra` away.
    before = [
        written("a", "parent's a"),
        written("run", "parent's run"),
        FileChange("extra", "added", new_sha256=sha("old")),
    ]
    after = [FileChange("b", "added", new_sha256=sha("child's b"), mode=0o755)]
    taken = await take_over(box, before, before, after, ProjectFiles(tmp_path / "project"), blobs)
    assert (taken.files, taken.conflicts) == (("a", "b", "extra", "run"), ())
    assert await box.files.read("a") == b"project's a"
    assert await box.files.read("b") == b"child's b"
    assert (await box.files.stat("b")).mode & 0o100
    assert (await box.files.stat("run")).mode & 0o100
    assert "extra" not in await box.files.glob("*")


async def test_what_changed_in_the_parent_meanwhile_stays_and_is_told(blobs, box, tmp_path):
    await stored(blobs, "child's", "both")
    await box.files.write("a", b"parent's own")
    now = [written("a", "parent's own"), written("same", "both")]
    after = [written("a", "child's"), written("same", "both"), FileChange("link", "deleted", "link")]
    taken = await take_over(box, now, [], after, ProjectFiles(tmp_path / "project"), blobs)
    assert (taken.files, taken.conflicts) == (("link", "same"), ("a",))
    assert await box.files.read("a") == b"parent's own"
    assert "link" not in await box.files.glob("*")


async def test_a_link_that_a_child_brought_back_points_where_the_project_s_does(blobs, box, tmp_path):
    before = [FileChange("link", "deleted", "link")]
    taken = await take_over(box, before, before, [], ProjectFiles(tmp_path / "project"), blobs)
    assert taken.files == ("link",)
    assert (await box.files.stat("link")).target == "a"


async def test_what_may_not_be_shown_was_not_undone(blobs, box, tmp_path):
    await box.files.write("a", b"parent's a")
    before = [written("a", "parent's a")]
    hidden = [written("a", "with a secret", state="protected")]
    taken = await take_over(box, before, before, hidden, ProjectFiles(tmp_path / "project"), blobs)
    assert (taken.files, taken.conflicts) == ((), ())
    assert await box.files.read("a") == b"parent's a"
