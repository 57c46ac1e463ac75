from __future__ import annotations

from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.conformance.load import LoadConformance
from kagura_kernel.testing.conformance.walls import WallsConformance
from tests.support.lending import LendsBoxes


class TestBubblewrapWalls(LendsBoxes, WallsConformance):
    make_backend = BubblewrapBackend


class TestBubblewrapUnderLoad(LoadConformance):
    pass
