"""What every back-end's boxes promise, as a suite: subclass `BoxConformance`, give it the async fixture `backend`.

::

    class TestMyBoxes(BoxConformance):
        @pytest.fixture
        async def backend(self):
            backend = MyBackend()
            yield backend
            await backend.close()

The boxes need bash and the usual small programs; `image` chooses one that has them. Every test has a box of its own;
where starting one is dear, `lending.LendsBoxes` before `BoxWorkConformance` lets most of them share one.
"""

from __future__ import annotations

from kagura_kernel.testing.conformance.box_changes import BoxChangesConformance
from kagura_kernel.testing.conformance.box_commands import BoxCommandConformance
from kagura_kernel.testing.conformance.box_crowds import BoxCrowdsConformance
from kagura_kernel.testing.conformance.box_files import BoxFilesConformance
from kagura_kernel.testing.conformance.box_further import BoxFurtherConformance
from kagura_kernel.testing.conformance.box_life import BoxLifeConformance
from kagura_kernel.testing.conformance.box_limits import BoxLimitsConformance
from kagura_kernel.testing.conformance.box_output import BoxOutputConformance
from kagura_kernel.testing.conformance.box_streams import BoxStreamsConformance


class BoxRestConformance(
    BoxCommandConformance,
    BoxOutputConformance,
    BoxLimitsConformance,
    BoxFilesConformance,
    BoxStreamsConformance,
    BoxCrowdsConformance,
):
    """Commands, output, limits, files and connections: what a box does by its guest, however it was started."""


class BoxWorkConformance(BoxRestConformance, BoxFurtherConformance, BoxChangesConformance):
    """That, and further directories and changes: what a box does while it lives."""


class BoxConformance(BoxWorkConformance, BoxLifeConformance):
    """All that, and life and death of boxes."""
