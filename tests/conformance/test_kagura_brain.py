"""The real package and the real agents, as the package starts them, against loopback model servers."""

import os
import shutil
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from kagura_kernel.brain.kagura_brain import KaguraBrain
from kagura_kernel.brain.provider import BrainEvent, Turn
from kagura_kernel.testing.conformance.brain import BrainConformance, BrainFor, Round
from tests.support.model_script import by_conversation, turns_of
from tests.support.model_server import ModelServer
from tests.support.openai_server import OpenAIServer


class TestKaguraBrainWithClaude(BrainConformance):
    @pytest.fixture
    def brain_for(self) -> BrainFor:
        @contextmanager
        def make(rounds: Sequence[Round]) -> Iterator[KaguraBrain]:
            with ModelServer(by_conversation({"": turns_of(rounds, slow=0.0)})) as server:
                # A slow round is no different here: the agents say nothing before they have said all.
                environ = {"ANTHROPIC_AUTH_TOKEN": "dummy", "ANTHROPIC_BASE_URL": server.url}
                yield KaguraBrain(environ, "claude")

        return make


class WithAModel(KaguraBrain):
    """Names a model that Codex knows nothing of: to its own it offers tools in a way that stays off."""

    def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        return super().run(replace(turn, model="scripted"))


@pytest.mark.skipif(shutil.which("codex") is None, reason="the program codex is not installed")
class TestKaguraBrainWithCodex(BrainConformance):
    @pytest.fixture
    def brain_for(self) -> BrainFor:
        @contextmanager
        def make(rounds: Sequence[Round]) -> Iterator[KaguraBrain]:
            with OpenAIServer(by_conversation({"": turns_of(rounds, slow=0.0)}), key="dummy") as server:
                environ = {"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": server.url, "PATH": os.environ["PATH"]}
                yield WithAModel(environ, "codex")

        return make
