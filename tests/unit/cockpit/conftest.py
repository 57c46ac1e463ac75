import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.engine import Engine
from kagura_kernel.domain.approvals import ApprovalRequest
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.plugin_rig import FakeJails


@pytest.fixture
def project(project: Path) -> Path:
    (project / "data.csv").write_text("a,b\n1,2\n")
    return project


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def cockpit_with(tmp_path: Path, backend: FakeBackend) -> Iterator[Callable[..., Cockpit]]:
    made: list[Cockpit] = []

    def make(script: object = ("Done.",), **options: object) -> Cockpit:
        brain = script if hasattr(script, "run") else FakeBrain(script)  # type: ignore[arg-type]
        cockpit = fake_cockpit(tmp_path / "home", backend=backend, brains=[brain], **options)  # type: ignore[arg-type]
        made.append(cockpit)
        return cockpit

    yield make
    for cockpit in made:
        cockpit.close()


@pytest.fixture
def cockpit(cockpit_with: Callable[..., Cockpit]) -> Cockpit:
    return cockpit_with()


@pytest.fixture
def await_question() -> Callable[[Cockpit], ApprovalRequest]:
    def wait(cockpit: Cockpit) -> ApprovalRequest:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if pending := cockpit.pending():
                return pending[0]
            time.sleep(0.01)
        pytest.fail("no question was asked")

    return wait


@pytest.fixture
def jails():
    return FakeJails()


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.stop()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Journal]:
    """The journal as another process has it."""
    journal = Journal.open(tmp_path / "home")
    yield journal
    journal.close()
