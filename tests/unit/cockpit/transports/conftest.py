from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import FakeBrain, Step
from kagura_kernel.testing.cockpit import fake_cockpit


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project apart from the data directory."""
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def cockpit_on(tmp_path: Path) -> Iterator[Callable[[Sequence[Step]], Cockpit]]:
    """Cockpits on one journal, as processes that come after one another have them."""
    made: list[Cockpit] = []

    def make(script: Sequence[Step] = ("Done.",)) -> Cockpit:
        made.append(fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[FakeBrain(script)]))
        return made[-1]

    yield make
    for cockpit in made:
        cockpit.close()


@pytest.fixture
def cockpit(cockpit_on: Callable[[], Cockpit]) -> Cockpit:
    return cockpit_on()
