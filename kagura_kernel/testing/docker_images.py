"""The images that Docker tests need, built from `images/` without a registry and kept for the next run.

Debian's root file system is made by debootstrap from its package archive and imported; the recipes take it as their
build argument. What is there already, made from the same recipe on the same base, is left alone. Run as
`python -m kagura_kernel.testing.docker_images` it makes them before the tests.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kagura_kernel.testing.dockerd import TestDaemon, cache_directory, shared_daemon, why_not

if TYPE_CHECKING:
    import docker

RECIPES = Path(__file__).parents[2] / "images"
DEBIAN = "kagura-test/debian:bookworm"
BASE = "kagura/base:latest"
PYTHON = "kagura/python:latest"
_RECIPE_LABEL = "kagura.recipe"

T = TypeVar("T")


def client_of(daemon: TestDaemon) -> docker.DockerClient:
    """A client of that daemon, whatever the environment says."""
    import docker

    return docker.DockerClient(base_url=daemon.host, timeout=600)


def ensure_images(daemon: TestDaemon) -> None:
    """Build what is missing: `kagura/base:latest` and `kagura/python:latest`; one process at a time."""
    client = client_of(daemon)
    try:
        with (daemon.home / "images").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            debian = _image_id(client, DEBIAN) or retried(lambda: _import_debian(client))
            base = _ensure(client, "base", BASE, DEBIAN, debian)
            _ensure(client, "python", PYTHON, BASE, base)
    finally:
        client.close()


def copy_image(source: TestDaemon, target: TestDaemon, name: str) -> None:
    """Carry one image from a daemon to another."""
    giver, taker = client_of(source), client_of(target)
    try:
        with tempfile.TemporaryFile() as archive:
            for chunk in giver.images.get(name).save(named=True):
                archive.write(chunk)
            archive.seek(0)
            taker.images.load(archive)
    finally:
        giver.close()
        taker.close()


def retried(attempt: Callable[[], T], times: int = 3, pause: float = 3.0) -> T:
    """What `attempt` gives, tried again when a package archive hiccups; the last failure is raised."""
    import docker

    for left in range(times - 1, -1, -1):
        try:
            return attempt()
        except (docker.errors.DockerException, subprocess.CalledProcessError):
            if not left:
                raise
            time.sleep(pause)
    raise AssertionError


def _ensure(client: docker.DockerClient, recipe: str, tag: str, base: str, base_id: str) -> str:
    path = RECIPES / f"{recipe}.Dockerfile"
    digest = hashlib.sha256(base_id.encode() + path.read_bytes()).hexdigest()
    if _label(client, tag) == digest:
        return _image_id(client, tag)

    def build() -> str:
        image, _ = client.images.build(
            path=str(RECIPES),
            dockerfile=path.name,
            tag=tag,
            buildargs={"BASE": base},
            labels={_RECIPE_LABEL: digest},
            network_mode="host",
            rm=True,
            forcerm=True,
        )
        return str(image.id)

    return retried(build)


def _import_debian(client: docker.DockerClient) -> str:
    with tempfile.TemporaryDirectory(dir=cache_directory()) as directory:
        root = Path(directory) / "root"
        subprocess.run(  # noqa: S603 - fixed words
            ["debootstrap", "--variant=minbase", "bookworm", str(root)],  # noqa: S607 - found on PATH on purpose
            check=True,
            capture_output=True,
        )
        archive = Path(directory) / "root.tar"
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True, capture_output=True)  # noqa: S603, S607 - likewise
        repository, tag = DEBIAN.split(":")
        client.api.import_image_from_file(str(archive), repository=repository, tag=tag)
    return _image_id(client, DEBIAN)


def _image_id(client: docker.DockerClient, name: str) -> str:
    import docker

    try:
        return str(client.images.get(name).id)
    except docker.errors.ImageNotFound:
        return ""


def _label(client: docker.DockerClient, name: str) -> str:
    import docker

    try:
        return str(client.images.get(name).labels.get(_RECIPE_LABEL, ""))
    except docker.errors.ImageNotFound:
        return ""


def main() -> None:
    """Make everything that Docker tests need, so that no test has to wait for it; fails with the cure."""
    if reason := why_not():
        raise SystemExit(reason)
    with shared_daemon() as daemon:
        ensure_images(daemon)


if __name__ == "__main__":
    main()
