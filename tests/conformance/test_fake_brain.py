from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kagura_kernel.testing.brain import Ask, FakeBrain, Hang, Step, Together
from kagura_kernel.testing.conformance.brain import BrainConformance, BrainFor, Round


class TestFakeBrain(BrainConformance):
    @pytest.fixture
    def brain_for(self) -> BrainFor:
        @contextmanager
        def make(rounds: Sequence[Round]) -> Iterator[FakeBrain]:
            script: list[Step] = []
            for one in rounds:
                script += [one.text] if one.text else []
                script += [Hang(0.5)] if one.slow else []
                script += [Together(tuple(Ask(*call) for call in one.calls))] if one.calls else []
            yield FakeBrain(script)

        return make
