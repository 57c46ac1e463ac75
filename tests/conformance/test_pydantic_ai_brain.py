"""The real library against the loopback server with an OpenAI-compatible API."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import pytest

from kagura_kernel.brain.openai_compatible import Endpoint, Figures
from kagura_kernel.brain.pydantic_ai import PydanticAIBrain
from kagura_kernel.domain.cost import Usage
from kagura_kernel.testing.conformance.brain import BrainConformance, BrainFor, Round
from tests.support.model_script import by_conversation, turns_of
from tests.support.openai_server import OpenAIServer


def price(usage: Usage, _model: str, _at: datetime) -> tuple[float, str]:
    return (usage.input_tokens + 4 * usage.output_tokens) * 1e-6, "a test"


class TestPydanticAIBrain(BrainConformance):
    @pytest.fixture
    def brain_for(self) -> BrainFor:
        @contextmanager
        def make(rounds: Sequence[Round]) -> Iterator[PydanticAIBrain]:
            with OpenAIServer(by_conversation({"": turns_of(rounds)})) as server:
                here = Endpoint("here", server.url, "scripted")
                yield PydanticAIBrain({"here": here}, "here", figures=Figures(price))

        return make
