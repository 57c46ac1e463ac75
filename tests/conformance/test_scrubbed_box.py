"""A box whose output is scrubbed is a box like any other.

What runs here, and why: commands, output and limits, which the scrubber stands in the middle of, and the life of boxes,
whose last words it changes. Files, changes, connections and further directories are handed to the box within by a line
each, and are `test_fake_box.py`'s; with KAGURA_TEST_EVERYTHING set they run here too.
"""

import pytest

from kagura_kernel.membrane.credentials.scrub import ScrubbedBox, Scrubber
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.sandbox.backend import Box, BoxSpec, Listener
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.conformance.box import (
    BoxChangesConformance,
    BoxCommandConformance,
    BoxFurtherConformance,
    BoxLifeConformance,
)
from kagura_kernel.testing.conformance.box_crowds import BoxCrowdsConformance
from kagura_kernel.testing.conformance.box_files import BoxFilesConformance
from kagura_kernel.testing.conformance.box_output import BoxLimitsConformance, BoxOutputConformance
from kagura_kernel.testing.conformance.box_streams import BoxStreamsConformance, says, told
from tests.support.effort import EVERYTHING

SECRETS = [Secret("ghs_never-printed-here")]


class ScrubbingBackend(FakeBackend):
    """Gives scrubbed boxes."""

    async def start(self, spec: BoxSpec) -> Box:
        return ScrubbedBox(await super().start(spec), Scrubber(lambda: SECRETS))


class Scrubbed:
    @pytest.fixture
    async def backend(self):
        backend = ScrubbingBackend()
        yield backend
        await backend.close()


class TestScrubbedBox(Scrubbed, BoxCommandConformance, BoxOutputConformance, BoxLimitsConformance, BoxLifeConformance):
    async def test_all_else_is_that_of_the_box_within(self, box):
        assert await box.files.read("a.txt") == b"alpha\n"
        await box.files.write("new.txt", b"new")
        assert [change.path for change in await box.changes()] == ["new.txt"]
        port = await box.listen(Listener(0, "raw"), says(b"answer"))
        assert await told(box, port, "c = connected(); c.shutdown(1); print(said(c).decode())") == "answer"


if EVERYTHING:

    class TestTheRestOfAScrubbedBox(
        Scrubbed,
        BoxFilesConformance,
        BoxFurtherConformance,
        BoxChangesConformance,
        BoxStreamsConformance,
        BoxCrowdsConformance,
    ):
        pass
