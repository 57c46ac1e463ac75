"""What a chat's message means, asked of real brains: no tools, no secret, one word, and its price in the books."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.brain.openai_compatible import Endpoint, Figures
from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.brain.pydantic_ai import PydanticAIBrain
from kagura_kernel.brain.replay import RecordingBrain, open_cassette
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.message_run import ClassifyingOrder, ClassifyingRun
from kagura_kernel.runs.prices import price
from kagura_kernel.runs.question_run import QuestionParts
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.model_script import offered_tools, says
from tests.support.model_server import ModelServer
from tests.support.openai_server import OpenAIServer
from tests.support.redactors import shared_redactor

KEY = "dummy-key-0123456789-never-real"
TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path / "home", clock=SystemClock())
    yield journal
    journal.close()


async def classified(journal: Journal, brain: BrainProvider, number: int = 1) -> ClassifyingRun:
    text = f"take the left one, the token is {TOKEN}"
    order = ClassifyingOrder(f"run-{number}", f"ses-{number}", text, ["Which side? 1. left 2. right"], brain=brain)
    run = ClassifyingRun(order, QuestionParts(journal, SystemClock(), price, shared_redactor()))
    async for _ in run.events():
        pass
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.error) == ("done", "")
    return run


Server = ModelServer | OpenAIServer


def claude(server: ModelServer, home: Path) -> BrainProvider:
    return ClaudeBrain({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}, home)


def compatible(server: OpenAIServer, _home: Path) -> BrainProvider:
    here = Endpoint("here", server.url, "scripted")
    return PydanticAIBrain({"here": here}, "here", figures=Figures(lambda *_: (0.001, "a test")))


@pytest.mark.parametrize(("kind", "make"), [(ModelServer, claude), (OpenAIServer, compatible)])
async def test_a_brain_is_shown_no_tool_and_no_secret_and_its_word_and_price_are_kept(
    journal: Journal, tmp_path: Path, kind: type[Server], make: Callable[[Server, Path], BrainProvider]
):
    with kind([says("answer")]) as server:
        cassette = tmp_path / "said.jsonl"
        run = await classified(
            journal, RecordingBrain(make(server, tmp_path / "state"), cassette, BlindRedactor().fields)
        )
        [request] = [one for one in server.requests if not one.side and one.method == "POST"]
    assert run.intent == "answer"
    assert offered_tools(request.body) == []
    said = json.dumps(request.body)
    assert "take the left one" in said
    assert TOKEN not in said
    [cost] = views.costs(journal)
    assert cost.input_tokens > 0
    assert TOKEN not in str([row.event for row in journal.events()])
    # Played again, nobody is asked, and the word is the same.
    player, _ = open_cassette(cassette)
    assert (await classified(journal, player, 2)).intent == "answer"
