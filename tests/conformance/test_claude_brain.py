"""The real Claude program against the loopback model server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.testing.conformance.brain import BrainConformance, BrainFor, Round
from tests.support.model_script import Calls, ModelTurn, Says, by_conversation
from tests.support.model_server import ModelServer


class TestClaudeBrain(BrainConformance):
    @pytest.fixture
    def brain_for(self, tmp_path: Path) -> BrainFor:
        @contextmanager
        def make(rounds: Sequence[Round]) -> Iterator[ClaudeBrain]:
            turns = [
                ModelTurn(
                    (*((Says(one.text),) if one.text else ()), *(Calls(*call) for call in one.calls)),
                    delay=0.1 if one.slow else 0.0,
                )
                for one in rounds
            ]
            with ModelServer(by_conversation({"": turns})) as server:
                environ = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": server.url}
                yield ClaudeBrain(environ, tmp_path / "claude")

        return make
