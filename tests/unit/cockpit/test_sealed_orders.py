"""When a brain may think in the box: a person says so, and nobody else."""

from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.brain.sealed import SealedBrain
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.orders import order_for
from kagura_kernel.domain.errors import BrainNotConfigured, KaguraError, UsageError
from kagura_kernel.domain.policy import PROGRAM_DIR
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.backends import IdleBackend

KEY = "sk-test-never-real"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "sealer.yaml").write_text("name: sealer\nbrain: sealed\n")
    return folder


@pytest.fixture
def environ() -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY}


@pytest.fixture
def cockpit(tmp_path: Path, environ: dict[str, str]) -> Any:
    program = tmp_path / "claude"
    program.write_bytes(b"\x7fELF")
    brains = (FakeBrain(name="claude"), SealedBrain(environ, tmp_path / "programs", program=program))
    made = fake_cockpit(tmp_path / "home", backend=IdleBackend(), brains=brains)
    yield made
    made.close()


def order(cockpit: Cockpit, project: Path, **more: Any) -> Any:
    intent = RunRequest(task="Do it.", project=project, **more)
    return order_for(intent, "ses-1", cockpit._parts.choices)


@pytest.mark.parametrize("more", [{"seal": True}, {"brain": "sealed"}, {"seal": True, "brain": "claude"}])
def test_a_person_seals_by_an_option_or_by_name(cockpit, project, more):
    made = order(cockpit, project, **more)
    assert made.brain.name == "sealed"
    ((folder, place),) = made.spec.extra_read_only
    assert ([path.name for path in folder.iterdir()], place) == (["claude"], PROGRAM_DIR)
    assert [mount.shown for mount in made.grant.mounts] == [str(project), "its brain’s program"]
    assert made.resume == ""


def test_nothing_is_shown_to_a_box_whose_brain_thinks_outside(cockpit, project):
    made = order(cockpit, project)
    assert (made.brain.name, made.spec.extra_read_only) == ("claude", ())


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"seal": True, "brain": "other"}, "is another brain"),
        ({"seal": True, "record": Path("tape.jsonl")}, "no cassette could call again"),
        ({"agent": "./sealer.yaml"}, "which is for you to say"),
    ],
)
def test_what_does_not_go_together_is_told(cockpit, project, monkeypatch, more, why):
    monkeypatch.chdir(project)
    with pytest.raises(UsageError) as refused:
        order(cockpit, project, **more)
    assert why in " ".join(refused.value.message.split())


def test_a_definition_that_wants_it_gets_it_when_a_person_does(cockpit, project, monkeypatch):
    monkeypatch.chdir(project)
    assert order(cockpit, project, agent="./sealer.yaml", seal=True).brain.name == "sealed"
    assert order(cockpit, project, agent="./sealer.yaml", brain="claude").brain.name == "claude"


def test_a_base_url_that_would_lose_the_key_is_told_before_anything_starts(tmp_path, project):
    program = tmp_path / "claude"
    program.write_bytes(b"\x7fELF")
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://gateway.example"}
    brain = SealedBrain(environ, tmp_path / "programs", program=program)
    made = fake_cockpit(tmp_path / "home", backend=IdleBackend(), brains=(brain,))
    try:
        with pytest.raises(BrainNotConfigured, match="must be https") as refused:
            order(made, project, seal=True)
        assert isinstance(refused.value, KaguraError)
        assert KEY not in refused.value.message
    finally:
        made.close()
