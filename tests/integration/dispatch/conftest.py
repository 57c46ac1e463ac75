"""Cockpits whose runs hand work on: a scripted brain for each task, real journals, boxes without walls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.events import AnyEvent
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, Step
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.task_brain import TaskBrain

USD_PER_TURN = 0.01

Make = Callable[..., Cockpit]


def flat_price(*_: Any) -> tuple[float | None, str]:
    """Every turn costs the same."""
    return USD_PER_TURN, "the test's"


def hand_on(task: str, **more: Any) -> Ask:
    return Ask("delegate", {"task": task, **more})


def launch(project: Path, task: str = "parent", **more: Any) -> RunRequest:
    """A task without a network."""
    return RunRequest(task=task, project=project, **{"net": ("none",), **more})


def events(cockpit: Cockpit, run_id: str, *kinds: str) -> list[AnyEvent]:
    """What is recorded of a run."""
    return [row.event for row in cockpit.journal.events(run_id=run_id, kinds=kinds)]


def only(cockpit: Cockpit, run_id: str, kind: str) -> Any:
    [event] = events(cockpit, run_id, kind)
    return event


def told(cockpit: Cockpit, outcome: RunOutcome) -> str:
    """What the journal says that the brain read of its only call."""
    text: str = only(cockpit, outcome.run_id, "tool.finished").text
    return text


@pytest.fixture
def project(project: Path) -> Path:
    (project / "data.csv").write_text("a,b\n1,2\n")
    return project


@pytest.fixture
def cockpit_with(tmp_path: Path) -> Iterator[Make]:
    made: list[Cockpit] = []

    def make(scripts: Mapping[str, Sequence[Step]], settings: Mapping[str, Any] | None = None, **more: Any) -> Cockpit:
        backend = more.pop("backend", None) or FakeBackend()
        brain = more.pop("brain", None) or TaskBrain(scripts)
        home = tmp_path / f"home-{len(made)}"
        values = {"plan_above_usd": None, **(settings or {})}
        cockpit = fake_cockpit(
            home, backend=backend, brains=[brain], settings=Settings(**values), prices=flat_price, **more
        )
        made.append(cockpit)
        return cockpit

    yield make
    for cockpit in made:
        cockpit.close()
