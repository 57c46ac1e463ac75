from datetime import UTC, datetime

import pytest

from kagura_kernel.brain.provider import usual_model
from kagura_kernel.cockpit.brains import USUAL_TURN, Thinking, report_brains, turn_words, usual_turn
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainNotConfigured, UsageError
from kagura_kernel.domain.events import AnyEvent, RunStarted
from kagura_kernel.domain.settings import Settings
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.sample_run import SampleRun

UNWRITABLE = "half \ud800"


def test_what_no_text_can_hold_is_refused_before_anything_begins(cockpit, project):
    for intent in (
        RunRequest(task=UNWRITABLE, project=project),
        RunRequest(language="python", task=UNWRITABLE, project=project),
    ):
        with pytest.raises(UsageError, match="no text in UTF-8"):
            cockpit.launch(intent)
    assert cockpit.runs() == []


def test_a_run_cannot_change_the_notebook_that_it_is_asked_for_in(cockpit_with, project, tmp_path):
    (project / "books").mkdir()
    (project / "books" / "own.ipynb").write_text("{}")
    cockpit = cockpit_with()
    code = "echo forged | tee books/own.ipynb books/other.ipynb; echo x > a.txt"
    (tmp_path / "link").symlink_to(project)
    intents = {
        str(project / "books" / "own.ipynb"): "books/own.ipynb",
        str(tmp_path / "link" / "books" / "own.ipynb"): "books/own.ipynb",
        str(tmp_path / "elsewhere.ipynb"): None,
        "": None,
    }
    for notebook, own in intents.items():
        intent = RunRequest(task=code, language="bash", project=project, place=CellPlace(notebook=notebook))
        outcome = cockpit.launch(intent).result(60)
        assert {change.path for change in outcome.changes} == {"a.txt", "books/other.ipynb", "books/own.ipynb"}
        assert {change.path for change in outcome.changes if change.state == "protected"} == {own} - {None}
    assert (project / "books" / "own.ipynb").read_text() == "{}"


@pytest.mark.parametrize(
    ("brain", "intent", "asked"),
    [
        ("one", {}, "model-of-one"),
        ("one", {"brain": "one"}, "model-of-one"),
        ("one", {"brain": "two"}, ""),
        ("two", {"brain": "one"}, ""),
        ("auto", {"brain": "one"}, "model-of-one"),
        ("auto", {"brain": "two"}, ""),
        ("one", {"brain": "two", "model": "mine"}, "mine"),
    ],
)
def test_the_model_of_the_settings_goes_to_the_brain_that_it_was_set_for(tmp_path, project, brain, intent, asked):
    brains = [FakeBrain(name="one"), FakeBrain(name="two")]
    settings = Settings(brain=brain, model="model-of-one")
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=brains, settings=settings)
    heard: list[AnyEvent] = []
    try:
        handle = cockpit.launch(RunRequest(task="do it", project=project, **intent))  # type: ignore[arg-type]
        handle.subscribe(heard.append)
        handle.result(60)
    finally:
        cockpit.close()
    assert [event.model for event in heard if isinstance(event, RunStarted)] == [asked]


def test_a_service_that_the_settings_name_is_whose_model_it_is():
    def choose() -> str:
        return "claude"

    for settings in (Settings(model="ollama:qwen3:32b"), Settings(model="qwen3:32b", endpoint="ollama")):
        assert usual_model(settings, "claude", choose) == ""
        assert usual_model(settings, "pydantic_ai", choose) == settings.model
    plain = Settings(model="claude-opus-4-1")
    assert usual_model(plain, "sealed", choose) == plain.model
    assert usual_model(plain, "pydantic_ai", choose) == ""


def test_where_no_brain_is_ready_the_model_of_the_settings_was_set_for_none():
    def choose() -> str:
        raise BrainNotConfigured("none")

    assert usual_model(Settings(model="m"), "claude", choose) == ""


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def by_size(usage: Usage, model: str, at: datetime) -> tuple[float | None, str]:
    del at
    return (usage.input_tokens * 1e-6, "a list") if model == "priced" else (None, "a list")


def test_before_anything_was_counted_a_turn_is_a_guess_that_says_so():
    (report,) = report_brains({"fake": FakeBrain([])}, lambda _: Thinking("priced", 4096), by_size, None, NOW)
    assert (report.turn, report.counted, report.window) == (USUAL_TURN, 0, 4096)
    assert report.turn_usd == pytest.approx(0.01)
    assert "a guess" in turn_words([report])


def test_a_price_that_nobody_knows_is_none_and_names_no_source():
    brains = {"fake": FakeBrain([])}
    for model in ("other", ""):
        (report,) = report_brains(brains, lambda _, model=model: Thinking(model), by_size, None, NOW)
        assert (report.turn_usd, report.source, report.model) == (None, "", model)


def test_a_turn_is_as_large_as_those_that_were_counted(tmp_path):
    journal = Journal.open(tmp_path)
    try:
        run = SampleRun()
        journal.append(run.started())
        for tokens in (100, 300, 8000):
            journal.append(run.counted(input_tokens=tokens, output_tokens=10))
        turn, counted = usual_turn(journal)
    finally:
        journal.close()
    assert (turn.input_tokens, turn.output_tokens, counted) == (300, 10, 3)
