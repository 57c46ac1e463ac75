"""A box whose output is scrubbed is a box like any other."""

from __future__ import annotations

import pytest

from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.scrubbed_box import scrubbed
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.conformance.box import BoxConformance

SECRETS = [Secret("ghs_never-printed-here")]


class ScrubbingBackend(FakeBackend):
    """Gives scrubbed boxes."""

    async def start(self, spec: BoxSpec) -> Box:
        return scrubbed(await super().start(spec), Scrubber(lambda: SECRETS))


class TestScrubbedBox(BoxConformance):
    @pytest.fixture
    async def backend(self):
        backend = ScrubbingBackend()
        yield backend
        await backend.close()
