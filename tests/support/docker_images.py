"""The images that Docker tests need, built from `images/` without a registry and kept for the next run.

Debian's root file system is made by debootstrap from its package archive and imported; it stands in for the base that
the recipes name. What is there already, made from the same recipe on the same base, is left alone. Run as
`python -m tests.support.docker_images` it makes them before the tests.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.images.build import BuildPlan, ImageDaemon, build_chain
from kagura_kernel.sandbox.images.recipes import RECIPE_LABEL, Recipe, Recipes, chain_for, recipe_named, settings_from
from tests.support.dockerd import TestDaemon, cache_directory, shared_daemon, why_not

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

RECIPES = Path(__file__).parents[2] / "images"
DEBIAN = "kagura-test/debian:bookworm"
BASE = "kagura/base:latest"
PYTHON = "kagura/python:latest"
CHAIN = ("base", "python", "node", "aws", "agent")
_MADE_SO = "without-logs"
"""Value of the label of a Debian that is made as `_import_debian` says now; another one is made anew."""

_PAUSE = 0.2

T = TypeVar("T")


def client_of(daemon: TestDaemon) -> docker.DockerClient:
    """A client of that daemon, whatever the environment says."""
    import docker

    return docker.DockerClient(base_url=daemon.host, timeout=600)


def ensure_images(daemon: TestDaemon, names: Sequence[str] = ("base", "python")) -> None:
    """Build what is missing: `kagura/base:latest` and `kagura/python:latest`, or others; one process at a time.

    An image that is there is waited for by nobody, though others are being built on it meanwhile.
    """
    client = client_of(daemon)
    try:
        _once(daemon, lambda: _is_made(client, DEBIAN), lambda: retried(lambda: _import_debian(client)))
        with ImageDaemon(Endpoint(daemon.host)) as images:
            for recipe in chain_for(names):
                build = partial(build_chain, images, Recipes.found(), [recipe.name], plan_here())
                _once(daemon, partial(_is_current, client, recipe), build)
    finally:
        client.close()


@contextlib.contextmanager
def building(daemon: TestDaemon) -> Iterator[None]:
    """Build by recipes in here: at its end a build removes what any other one has left lying about."""
    with (daemon.home / "images").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _once(daemon: TestDaemon, done: Callable[[], bool], do: Callable[[], object]) -> None:
    """Do it, unless it is done or another process does it meanwhile."""
    with (daemon.home / "images").open("wb") as lock:
        while not done():
            # Who has the lock may go on to the next image at once: asking for it in turn could take until the last.
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not done():
                    do()
                return
            time.sleep(_PAUSE)


def _is_current(client: docker.DockerClient, recipe: Recipe) -> bool:
    """Whether the image is made of this recipe, on the base that is there now."""
    plan, recipes = plan_here(), Recipes.found()
    made = _found(client, plan.tag(recipe))
    below = _found(client, plan.tag(recipe_named(recipe.base)) if recipe.base else plan.base)
    if made is None or below is None:
        return False
    return bool(made.labels.get(RECIPE_LABEL) == recipes.identity(recipe, below.id or "", plan.lock))


def plan_here() -> BuildPlan:
    """How images are built in tests: on our Debian, in the host's network, by the settings of this machine."""
    return BuildPlan(base=DEBIAN, network="host", settings=settings_from(os.environ))


def copy_image(source: TestDaemon, target: TestDaemon, name: str) -> None:
    """Carry one image from a daemon to another, unless it is there; one process at a time."""
    giver, taker = client_of(source), client_of(target)
    try:
        with (target.home / "images").open("wb") as lock, tempfile.TemporaryFile() as archive:
            fcntl.flock(lock, fcntl.LOCK_EX)
            image = giver.images.get(name)
            if image.id in [other.id for other in taker.images.list(name)]:
                return
            # It may bear other names as well, and the first of them is anybody's.
            for chunk in image.save(named=name):
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


def _import_debian(client: docker.DockerClient) -> None:
    with tempfile.TemporaryDirectory(dir=cache_directory()) as directory:
        root = Path(directory) / "root"
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(root)], check=True, capture_output=True)
        archive = Path(directory) / "root.tar"
        # What Debian's own image has not either: packages, indexes, and a log that names this machine's folders.
        without = ["--exclude=./var/log/*", "--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*"]
        command = ["tar", "-C", str(root), *without, "-cf", str(archive), "."]
        subprocess.run(command, check=True, capture_output=True)
        repository, tag = DEBIAN.split(":")
        client.api.import_image_from_file(
            str(archive), repository=repository, tag=tag, changes=[f"LABEL {RECIPE_LABEL}={_MADE_SO}"]
        )


def _is_made(client: docker.DockerClient, name: str) -> bool:
    found = _found(client, name)
    return found is not None and found.labels.get(RECIPE_LABEL) == _MADE_SO


def _found(client: docker.DockerClient, name: str) -> Image | None:
    import docker

    try:
        return client.images.get(name)
    except docker.errors.ImageNotFound:
        return None


def main() -> None:
    """Make everything that Docker tests need, so that no test has to wait for it; fails with the cure."""
    if reason := why_not():
        raise SystemExit(reason)
    try:
        with shared_daemon() as daemon:
            ensure_images(daemon, CHAIN)
    except KaguraError as error:
        raise SystemExit(f"{error.code}: {error.message}") from error


if __name__ == "__main__":
    main()
