import pytest

from kagura_kernel.brain.openai_compatible import Endpoint
from kagura_kernel.brain.provider import choose
from kagura_kernel.brain.pydantic_ai import PydanticAIBrain
from kagura_kernel.domain.errors import BrainNotConfigured, UnknownName, UsageError
from kagura_kernel.testing.brain import FakeBrain

READY, UNREADY = FakeBrain(name="b"), FakeBrain(name="a", ready=False)


@pytest.mark.parametrize("name", ["auto", ""])
def test_auto_takes_the_first_that_is_ready_and_says_why(name):
    brain, reason = choose(name, {"a": UNREADY, "b": READY})
    assert brain is READY
    assert reason == "it needs no sign-in"


def test_a_brain_asked_for_by_name_is_taken():
    brain, reason = choose("b", {"a": UNREADY, "b": READY})
    assert brain is READY
    assert reason.startswith("asked for")


def test_a_brain_asked_for_by_name_that_is_not_ready_is_no_reason_to_take_another():
    with pytest.raises(BrainNotConfigured, match="without a sign-in"):
        choose("a", {"a": UNREADY, "b": READY})


def test_replay_without_a_cassette_says_what_is_missing():
    with pytest.raises(UsageError, match="--replay FILE"):
        choose("replay", {"b": READY})


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'claude'") as caught:
        choose("cluade", {"claude": READY})
    assert caught.value.known == ("auto", "claude", "replay")


def test_with_nothing_configured_there_are_four_ways_in_one_line_that_fits_every_surface():
    with pytest.raises(BrainNotConfigured) as caught:
        choose("auto", {"a": UNREADY})
    text = caught.value.message
    assert "\n" not in text
    assert "restart the kernel" not in text
    assert "`kagura-kernel setup brain`" in text
    ways = ("`claude`", "ANTHROPIC_API_KEY", "KAGURA_ENDPOINT", "%%sandbox", "--replay FILE")
    for way in (*ways, "a: it was made without a sign-in"):
        assert way in text


def test_a_brain_whose_model_says_where_it_thinks_can_be_asked_for_and_is_never_the_first_that_is_ready():
    brain = PydanticAIBrain({"ollama": Endpoint("ollama", "http://127.0.0.1:11434/v1")})
    assert choose("pydantic_ai", {"pydantic_ai": brain}) == (brain, "asked for, and its model says where")
    with pytest.raises(BrainNotConfigured):
        choose("auto", {"pydantic_ai": brain})


def test_with_no_brain_at_all_it_says_the_same():
    with pytest.raises(BrainNotConfigured, match="no brain to choose from"):
        choose("auto", {})
