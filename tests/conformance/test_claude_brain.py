"""The real Claude program against the loopback model server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.testing.conformance.brain import BrainConformance, BrainFor, Round
from tests.support.model_script import by_conversation, turns_of
from tests.support.model_server import ModelServer


class TestClaudeBrain(BrainConformance):
    @pytest.fixture
    def brain_for(self, tmp_path: Path) -> BrainFor:
        @contextmanager
        def make(rounds: Sequence[Round]) -> Iterator[ClaudeBrain]:
            with ModelServer(by_conversation({"": turns_of(rounds)})) as server:
                environ = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": server.url}
                yield ClaudeBrain(environ, tmp_path / "claude")

        return make
