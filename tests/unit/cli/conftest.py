from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.cockpit.intents import LaunchCell
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until

OURS = ("KAGURA_CONFIG", "KAGURA_JOURNAL_URL", "KAGURA_SHARED", "KAGURA_BOX", "JUPYTERHUB_USER")


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory in use by the settings, with nobody's configuration beside it, and no Docker daemon."""
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "books"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    return tmp_path / "books"


@pytest.fixture
def journal(books: Path) -> Iterator[Journal]:
    """The journal in it."""
    journal = Journal.open(books)
    yield journal
    journal.close()


@pytest.fixture
def gone() -> str:
    """An owner on this machine whose process is no more: nobody has its number."""
    host, _, since = process_owner().split(":")
    return f"{host}:999999999:{since}"


@pytest.fixture
def running(books: Path, tmp_path: Path) -> Iterator[Callable[[], RunHandle]]:
    """Sets a run going that would never end: its box, engine and journal are real."""
    project = tmp_path / "project"
    project.mkdir()
    cockpit: Cockpit = fake_cockpit(books, backend=FakeBackend())

    def start() -> RunHandle:
        cell = LaunchCell(
            code="echo begun; sleep 100000",
            language="bash",
            project=project,
            new_session=True,
            command_timeout=0,
            idle_timeout=0,
        )
        handle = cockpit.launch(cell)
        told: list[str] = []
        handle.subscribe(lambda event: told.append(event.kind))
        wait_until(lambda: "output.streamed" in told)
        return handle

    yield start
    cockpit.close()
