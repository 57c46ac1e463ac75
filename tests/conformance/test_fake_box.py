"""The back-end without walls keeps every promise but the walls."""

import os
import sys
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable, WorkspaceTooLarge, WorkspaceUnreadable
from kagura_kernel.domain.policy import BoxLimits
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing import box as fake
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.conformance.box import BoxConformance

THIS_PYTHON = sys.executable


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class TestFakeBox(BoxConformance):
    @pytest.fixture
    async def backend(self):
        backend = FakeBackend()
        yield backend
        await backend.close()

    async def test_a_project_that_is_too_large_is_refused_and_nothing_is_left(self, backend, project):
        (project / "big").write_bytes(b"x" * 5_000_000)
        before = open_descriptors()
        with pytest.raises(WorkspaceTooLarge):
            await backend.start(BoxSpec(workspace=project, limits=BoxLimits(workspace_bytes=200_000)))
        assert open_descriptors() == before

    async def test_a_project_that_is_not_there_is_refused(self, backend):
        with pytest.raises(WorkspaceUnreadable):
            await backend.start(BoxSpec(workspace=Path("/no/such/project")))

    async def test_a_large_project_arrives_whole(self, backend, project):
        for number in range(300):
            (project / f"n{number}").write_bytes(b"%d" % number * 1000)
        (project / "big").write_bytes(os.urandom(20_000_000))
        box = await backend.start(BoxSpec(workspace=project))
        assert await box.files.read("big") == (project / "big").read_bytes()
        assert await box.files.read("n299") == b"299" * 1000
        assert await box.changes() == []

    async def test_a_back_end_can_be_made_to_fail(self):
        broken = fake.FakeBackend(broken="bwrap is not installed")
        assert not (await broken.probe()).ok
        with pytest.raises(SandboxUnavailable, match="bwrap is not installed"):
            await broken.start(BoxSpec())

    async def test_an_interpreter_that_is_none_is_no_box(self):
        for python in ("/no/such/python", "/bin/false"):
            with pytest.raises(SandboxUnavailable):
                await fake.FakeBackend(python).start(BoxSpec())

    async def test_the_guest_runs_from_source_as_well(self, project, monkeypatch):
        monkeypatch.setattr(sys, "executable", "/another/python")
        backend = fake.FakeBackend(THIS_PYTHON)
        box = await backend.start(BoxSpec(workspace=project))
        assert await box.files.read("a.txt") == b"alpha\n"
        await backend.close()
