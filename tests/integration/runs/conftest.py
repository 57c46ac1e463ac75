"""Whole runs in real boxes, with plugins that are functions of the test."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events import AnyEvent, PluginCalled, ToolFinished
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.membrane.grant import MembraneParts
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.runs.kept_boxes import KeptBoxes
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.run import Run
from kagura_kernel.sandbox.backend import BoxSpec, SandboxBackend
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.selection import LaunchedBox
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.plugins import FakePlugins

HERE = Path(__file__).parent


@dataclass
class Ended:
    """What a run left."""

    outcome: RunOutcome
    events: list[AnyEvent]

    @property
    def text(self) -> str:
        """What its last program printed."""
        [*_, last] = [event for event in self.events if isinstance(event, ToolFinished)]
        return last.text

    @property
    def calls(self) -> list[PluginCalled]:
        return [event for event in self.events if isinstance(event, PluginCalled)]


class Runs:
    """Makes runs in one project, with one journal."""

    def __init__(self, backend: SandboxBackend, journal: Journal, home: Path, project: Path) -> None:
        self.backend = backend
        self.journal = journal
        self.project = project
        self._home = home
        self._numbers = itertools.count(1)
        self.kept = KeptBoxes(SystemClock())

    def make(self, plugins: FakePlugins, task: str = "", language: Any = "", **more: Any) -> Run:
        """A run that has not begun."""
        number = next(self._numbers)
        spec = more.pop("spec", BoxSpec(workspace=self.project))
        limits = more.pop("call_limits", None)
        approver = more.pop("approver", None) or ScriptedApprover()
        headless = more.pop("headless", True)
        clock = more.pop("clock", None) or SystemClock()
        memory, push_cost, push_task, redactor = (
            more.pop(name, None) for name in ("memory", "push_cost", "push_task", "redactor")
        )

        async def start_box(_name: str, wanted: BoxSpec) -> LaunchedBox:
            return LaunchedBox(await self.backend.start(wanted), "the test says so")

        parts = RunParts(
            journal=self.journal,
            clock=clock,
            approver=approver,
            blobs=BlobStore(self._home / "blobs"),
            start_box=start_box,
            spill_root=self._home / "outputs",
            price=more.pop("price", lambda *_: (None, "")),
            membrane=MembraneParts(LeaseLedger(self.journal), Registry),
            plugins=plugins,
            kept=self.kept,
            memory=None if memory is None else lambda: memory,
            push_cost=push_cost,
            push_task=push_task,
            redactor=redactor or BlindRedactor(),
            **({} if limits is None else {"call_limits": limits}),
        )
        asked = {name: more.pop(name) for name in ("inputs", "outputs", "changes", "started_by") if name in more}
        order = RunOrder(
            f"run-{number}",
            more.pop("session", "ses-1"),
            task,
            self.project,
            spec,
            limits=more.pop("limits", CommandLimits(120.0, None)),
            request=RunRequest(language=language, headless=headless, **asked),
            **more,
        )
        return Run(order, parts)

    async def cell(self, plugins: FakePlugins, code: str, language: str = "python", **more: Any) -> Ended:
        return await self.listened(self.make(plugins, code, language, **more))

    async def brain(self, plugins: FakePlugins, brain: BrainProvider, **more: Any) -> Ended:
        return await self.listened(self.make(plugins, "Do it.", brain=brain, **more))

    async def listened(self, run: Run) -> Ended:
        events = [event async for event in run.events()]
        assert run.outcome is not None
        return Ended(run.outcome, events)


def open_for_boxes(*folders: Path) -> None:
    """As root the box's own user has to be able to look in."""
    if os.geteuid() == 0:
        for folder in folders:
            folder.chmod(0o755)


@pytest.fixture
def project(tmp_path: Path, project: Path) -> Path:
    open_for_boxes(project, tmp_path, *tmp_path.parents[:2])
    return project


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for `runs` shares a loop with its module, as their boxes share a back-end."""
    for item in items:
        if item.path.parent == HERE and "runs" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_backend() -> AsyncIterator[BubblewrapBackend]:
    """One for all tests of a module: a back-end starts a process of its own, and every run has a box of its own."""
    backend = BubblewrapBackend()
    yield backend
    await backend.close()


@pytest.fixture
def runs(shared_backend: BubblewrapBackend, project: Path, tmp_path: Path) -> Iterator[Runs]:
    home = tmp_path / "home"
    journal = Journal.open(home)
    yield Runs(shared_backend, journal, home, project)
    journal.close()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SqliteMemory]:
    store = SqliteMemory(tmp_path / "memory.sqlite3")
    yield store
    store.close()
