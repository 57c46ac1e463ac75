"""Boxes to measure in, one of each back-end that works here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kagura_kernel.domain.policy import BoxLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from tests.bench.harness import Bench, Missing

LIMITS = BoxLimits(memory_bytes=2**31)


def project(bench: Bench, name: str = "project") -> Path:
    """A small project: a few files of a few kilobytes."""
    folder = bench.folder / name
    folder.mkdir(exist_ok=True)
    for number in range(10):
        (folder / f"file{number}.txt").write_text("a line of text\n" * 200, "utf-8")
    return folder


def spec(workspace: Path | None) -> BoxSpec:
    """The usual box, a little smaller in memory than by default: measuring machines are small."""
    return BoxSpec(workspace=workspace, limits=LIMITS)


def docker_backend(bench: Bench) -> DockerBackend:
    """The Docker back-end at the daemon of the tests.

    Raises:
        Missing: there is none.
    """
    return DockerBackend(Endpoint(bench.docker().host))


@dataclass(frozen=True, slots=True)
class Places:
    """Running boxes; None where the back-end does not work here."""

    bubblewrap: Box | None = None
    docker: Box | None = None

    def named(self) -> Iterator[tuple[str, Box]]:
        """Those that run, with the names of their back-ends."""
        if self.bubblewrap:
            yield "bubblewrap", self.bubblewrap
        if self.docker:
            yield "docker", self.docker


@asynccontextmanager
async def boxes(bench: Bench, workspace: Path | None = None) -> AsyncIterator[Places]:
    """One box of each back-end.

    Raises:
        Missing: no back-end works here.
    """
    workspace = workspace or project(bench)
    async with AsyncExitStack() as stack:

        async def one(backend: SandboxBackend) -> Box | None:
            stack.push_async_callback(backend.close)
            return await backend.start(spec(workspace)) if (await backend.probe()).ok else None

        places = Places(
            bubblewrap=await one(BubblewrapBackend()), docker=await one(docker_backend(bench)) if bench.daemon else None
        )
        if not list(places.named()):
            raise Missing("no box starts here")
        yield places
