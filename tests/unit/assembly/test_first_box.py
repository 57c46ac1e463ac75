"""When the supervisor of boxes is started before anybody asks for a box."""

from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.assembly import first_box
from kagura_kernel.domain.settings import SandboxPolicyType, Settings
from kagura_kernel.sandbox import docker_endpoint
from kagura_kernel.sandbox.bubblewrap import backend
from kagura_kernel.sandbox.python_view import NAMES, current_view


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(first_box, "launch_ahead", found.append)
    monkeypatch.setattr(docker_endpoint, "DEFAULT_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.chdir(tmp_path)
    return found


def test_it_is_set_up_as_the_first_box_of_this_folder_wants_it(started: list[Any], tmp_path: Path) -> None:
    first_box.start_supervisor(Settings(), {})
    assert started == [current_view(tmp_path).as_setup(*NAMES)]
    assert backend.NAMES is NAMES


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        (Settings(box="docker"), {}),
        (Settings(policy=SandboxPolicyType.DANGER_FULL), {}),
        (Settings(shared=True), {}),
        (Settings(boxes=("ssh", "bubblewrap")), {}),
        (Settings(), {"JUPYTERHUB_USER": "ada"}),
        (Settings(), {"DOCKER_HOST": "tcp://127.0.0.1:1"}),
    ],
)
def test_it_is_not_started_where_another_kind_of_box_comes_first(
    started: list[Any], settings: Settings, environ: dict[str, str]
) -> None:
    first_box.start_supervisor(settings, environ)
    assert started == []


def test_a_docker_daemon_comes_first_unless_bubblewrap_is_named(started: list[Any], tmp_path: Path) -> None:
    (tmp_path / "docker.sock").touch()
    first_box.start_supervisor(Settings(), {})
    assert started == []
    first_box.start_supervisor(Settings(box="bubblewrap"), {})
    assert len(started) == 1


def test_a_daemon_that_is_named_and_not_there_is_none(started: list[Any], tmp_path: Path) -> None:
    first_box.start_supervisor(Settings(), {"DOCKER_HOST": f"unix://{tmp_path}/none"})
    assert len(started) == 1


def test_a_machine_without_the_program_starts_nothing(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    first_box.start_supervisor(Settings(), {})
    assert started == []
