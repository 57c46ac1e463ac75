"""The list of models: what real servers on the loopback tell, each asked with its own key, and what it costs."""

from collections.abc import Iterator
from dataclasses import astuple

import pytest

from kagura_kernel.assembly import local_services
from kagura_kernel.assembly.offered_models import offered_models
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.settings import EndpointSettings, Settings
from kagura_kernel.journal.store import Journal
from tests.support.openai_server import OpenAIServer
from tests.support.sample_run import SampleRun

KEY = "sk-of-the-house-1234567890"


@pytest.fixture
def journal(tmp_path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path / "journal.db")
    yield journal
    journal.close()


@pytest.fixture(autouse=True)
def no_known_services(monkeypatch):
    """What else may answer on the machine that tests run on is nobody's business."""
    monkeypatch.setattr(local_services, "KNOWN", {})


def test_services_tell_their_models_each_with_its_own_key_and_prices_are_told_or_said_to_be_unknown(tmp_path, journal):
    with OpenAIServer(models=("a", "b"), key=KEY) as work, OpenAIServer(models=("c",)) as home:
        endpoints = {
            "work": EndpointSettings(url=work.url, key_env="WORK_KEY", input_usd=2.0, output_usd=8.0),
            "home": EndpointSettings(url=home.url, input_usd=0.0, output_usd=0.0),
            "vague": EndpointSettings(url=home.url),
        }
        settings = Settings(brain="pydantic_ai", endpoint="work", model="b", endpoints=endpoints)
        found = offered_models({"WORK_KEY": KEY}, settings, tmp_path, journal, "")

        assert [astuple(one) for one in found] == [
            ("work:b", 2.0, 8.0, "settings, endpoints.work", True, ""),
            ("work:a", 2.0, 8.0, "settings, endpoints.work", False, ""),
            ("home:c", 0.0, 0.0, "free, on this machine", False, ""),
            ("vague:c", None, None, "price unknown", False, ""),
        ]
        assert len(home.requests) == 2
        assert all("authorization" not in request.headers for request in home.requests)


def test_a_key_that_may_not_be_sent_there_leaves_the_service_unasked(tmp_path, journal, monkeypatch):
    asked = {}
    monkeypatch.setattr(
        "kagura_kernel.assembly.offered_models.local_services", lambda urls, _: asked.update(urls) or []
    )
    endpoints = {"plain": EndpointSettings(url="http://llm.example.com/v1", key_env="WORK_KEY")}
    settings = Settings(
        brain="pydantic_ai",
        endpoint="home",
        endpoints=endpoints | {"home": EndpointSettings(url="http://127.0.0.1:9/v1")},
    )

    assert offered_models({"WORK_KEY": KEY}, settings, tmp_path, journal, "home:x")[0].name == "home:x"
    assert list(asked) == ["home"]


def test_claude_offers_its_names_and_the_chosen_model_with_its_price(tmp_path, journal):
    environ = {"ANTHROPIC_API_KEY": KEY}
    found = offered_models(environ, Settings(brain="claude"), tmp_path, journal, "claude-sonnet-4-5")

    assert [one.name for one in found] == ["claude-sonnet-4-5", "opus", "sonnet", "haiku"]
    assert [one.current for one in found] == [True, False, False, False]
    assert found[0].input_usd == pytest.approx(3.0)
    assert found[0].output_usd == pytest.approx(15.0)
    assert found[1].price == "price unknown"


def test_where_the_brain_chooses_that_is_said_and_names_have_the_price_of_what_they_last_stood_for(tmp_path, journal):
    for number, (asked, answered) in enumerate([("opus", "claude-opus-4-5"), ("", "claude-sonnet-4-5"), ("haiku", "")]):
        run = SampleRun(f"run-{number}")
        journal.append(run.started(brain="claude", model=asked))
        journal.append(run.finished(brain="claude", model=answered))
    found = offered_models({"ANTHROPIC_API_KEY": KEY}, Settings(brain="claude"), tmp_path, journal, "")

    assert [(one.name, one.current, one.input_usd, one.about) for one in found] == [
        ("auto", True, pytest.approx(3.0), "the brain’s own choice, claude-sonnet-4-5 when it last answered"),
        ("opus", False, pytest.approx(5.0), "claude-opus-4-5 when it last answered"),
        ("sonnet", False, None, ""),
        ("haiku", False, None, ""),
        ("claude-sonnet-4-5", False, pytest.approx(3.0), ""),
        ("claude-opus-4-5", False, pytest.approx(5.0), ""),
    ]
    assert found[3].price == "price unknown"


def test_without_a_brain_it_says_how_to_get_one(tmp_path, journal):
    with pytest.raises(BrainNotConfigured):
        offered_models({"HOME": str(tmp_path)}, Settings(), tmp_path, journal, "")
