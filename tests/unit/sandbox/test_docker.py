"""What the Docker back-end says and decides before any daemon is asked."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.policy import BoxLimits, IsolationClass
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.sandbox.docker.backend import DEFAULT_IMAGE, DockerBackend, build_command
from kagura_kernel.sandbox.docker_endpoint import Endpoint


@pytest.fixture
async def backend(tmp_path: Path):
    backend = DockerBackend(Endpoint(f"unix://{tmp_path / 'none.sock'}"))
    yield backend
    await backend.close()


@pytest.mark.parametrize(
    ("image", "name"), [(DEFAULT_IMAGE, "python"), ("kagura/node", "node"), ("kagura/base:latest", "base")]
)
def test_an_image_of_ours_is_built_by_our_own_command(image: str, name: str):
    assert build_command(image) == f"Build it: `kagura-kernel images build {name}`."


@pytest.mark.parametrize("image", ["other:1", "kagura/python:old", "kagura/none"])
def test_another_image_is_built_or_pulled_with_docker(image: str):
    assert f"`docker build --tag {image} DIRECTORY`" in build_command(image)
    assert f"`docker pull {image}`" in build_command(image)


async def test_it_is_a_container_called_docker(backend: DockerBackend):
    assert (backend.name, backend.isolation) == ("docker", IsolationClass.CONTAINER)


async def test_without_a_daemon_every_start_says_so(backend: DockerBackend):
    probe = await backend.probe()
    assert (probe.ok, "no Docker daemon answers" in probe.reason) == (False, True)
    with pytest.raises(SandboxUnavailable, match="no Docker daemon answers"):
        await backend.start(BoxSpec())


async def test_what_docker_cannot_do_is_refused_before_it_is_asked(backend: DockerBackend):
    with pytest.raises(SandboxUnsupported):
        await backend.start(BoxSpec(extra_read_only=((Path("/data"), "/usr"),)))


async def test_projects_share_parked_boxes_and_nothing_else_does(backend: DockerBackend):
    spec = BoxSpec(workspace=Path("/a"), env={"A": "1"})
    assert backend.parking_spec(spec) == backend.parking_spec(replace(spec, workspace=Path("/b")))
    for other in (
        replace(spec, env={"A": "2"}),
        replace(spec, image="other"),
        replace(spec, limits=BoxLimits(processes=3)),
        replace(spec, extra_read_only=((Path("/d"), "/d"),)),
    ):
        assert backend.parking_spec(other) != backend.parking_spec(spec)
    assert backend.parking_spec(replace(spec, shown=(ShownPath(Path("/d"), "/d"),))) is None


def test_the_docker_library_is_not_loaded_with_the_back_end():
    code = (
        "import sys, kagura_kernel.sandbox.docker.backend, kagura_kernel.sandbox.pool; print('docker' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "False\n"
