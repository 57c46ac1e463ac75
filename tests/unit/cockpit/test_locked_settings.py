"""What an administrator has locked: a cell, a definition and a program may have less of it, never more."""

from contextlib import closing
from typing import Any

import pytest

from kagura_kernel.cockpit.locked_settings import audit_budget, check_locked_audit
from kagura_kernel.cockpit.message_brain import Message
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.settings import EndpointSettings, Settings, WriteMode
from kagura_kernel.journal import views
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit

HELD: dict[str, Any] = {
    "budget_usd": 2.0,
    "command_timeout": 60.0,
    "idle_timeout": 30.0,
    "net": ("ask", "a.example"),
    "workers": "",
    "brain": "one",
    "model": "m",
}


@pytest.fixture
def launch(tmp_path, project):
    cockpits = []

    def launched(locked: str, **options: Any) -> str:
        brains = [FakeBrain(["Done."], name=name) for name in ("one", "two")]
        settings = Settings(**HELD, locked=(locked,))
        home = tmp_path / f"home-{len(cockpits)}"
        cockpit = fake_cockpit(
            home, backend=FakeBackend(), brains=brains, settings=settings, prices=lambda *_: (0.01, "the test's")
        )
        cockpits.append(cockpit)
        return cockpit.launch(RunRequest("do it", project=project, **options)).result(60).status

    yield launched
    for cockpit in cockpits:
        cockpit.close()


@pytest.mark.parametrize(
    ("locked", "less", "more"),
    [
        ("budget_usd", {"budget_usd": 1.5}, {"budget_usd": 2.5}),
        ("command_timeout", {"command_timeout": 10.0}, {"command_timeout": 0.0}),
        ("idle_timeout", {"idle_timeout": 10.0}, {"idle_timeout": 31.0}),
        ("net", {"net": ("none",)}, {"net": ("b.example",)}),
        ("write", {"write_mode": WriteMode.NONE}, {"write_mode": WriteMode.THROUGH}),
        ("write", {"mode": "default"}, {"mode": "acceptEdits"}),
        ("policy", {"policy": "read_only"}, None),
        ("keep", {}, {"keep": True}),
        ("box", {"box": "auto"}, {"box": "fake"}),
        ("image", {}, {"image": "python:3"}),
        ("model", {"model": "m"}, {"model": "n"}),
        ("workers", {"workers": ""}, {"workers": "tcp://10.0.0.1:8786"}),
        ("context", {"context": "none"}, None),
    ],
)
def test_an_option_makes_it_tighter_or_is_refused(launch, locked, less, more):
    assert launch(locked, **less) == "done"
    if more is not None:
        with pytest.raises(UsageError, match=f"the setting `{locked}` says"):
            launch(locked, **more)


def test_what_is_not_locked_is_a_cell_s_to_say(launch):
    assert launch("write", budget_usd=2.5) == "done"


@pytest.mark.parametrize(
    ("locked", "seconds", "told"),
    [
        (("command_timeout",), 61, "must lie between 1 and 60"),
        (("idle_timeout",), 60, "ERR_SANDBOX_IDLE_TIMEOUT"),
        ((), 61, "Done sleeping"),
    ],
)
def test_an_agent_gives_its_command_no_more_time_than_is_locked(tmp_path, project, locked, seconds, told):
    ask = Ask("bash", {"command": "sleep 1; echo Done sleeping", "timeout": seconds})
    brain = FakeBrain([ask, lambda results: results[-1].text])
    settings = Settings(command_timeout=60.0, idle_timeout=0.1, locked=locked)
    home = tmp_path / "home"
    with closing(fake_cockpit(home, backend=FakeBackend(), brains=[brain], settings=settings)) as cockpit:
        assert told in cockpit.launch(RunRequest("do it", project=project)).result(60).text


def test_a_cell_that_lifts_the_limit_leaves_the_agent_its_own(tmp_path, project):
    brain = FakeBrain([Ask("bash", {"command": "echo There", "timeout": 300}), lambda results: results[-1].text])
    with closing(fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[brain])) as cockpit:
        request = RunRequest("do it", project=project, command_timeout=0.0)
        assert "There" in cockpit.launch(request).result(60).text


def test_a_definition_has_no_more_than_a_cell(launch, tmp_path):
    for home in ("home-0", "home-1"):
        own = tmp_path / home / "agents"
        own.mkdir(parents=True)
        (own / "other.yaml").write_text("name: other\nbrain: two\n")
    assert launch("write", agent="other") == "done"
    with pytest.raises(UsageError, match="the setting `brain` says"):
        launch("brain", agent="other")


@pytest.mark.parametrize(
    ("boxes", "locked", "goes"),
    [
        (("docker",), ("boxes",), False),
        (("docker",), ("boxes", "box"), False),
        (("docker", "fake"), ("boxes",), True),
        ((), ("boxes",), True),
        (("docker",), (), True),
    ],
)
def test_a_box_by_name_is_of_those_that_are_tried(tmp_path, project, boxes, locked, goes):
    settings = Settings(boxes=boxes, locked=locked)
    request = RunRequest("true", "bash", project=project, box="fake")
    with closing(fake_cockpit(tmp_path / "home", backend=FakeBackend(), settings=settings)) as cockpit:
        if goes:
            assert cockpit.launch(request).result(60).status == "done"
            return
        with pytest.raises(UsageError, match=r"the setting `box(es)?` says.*Leave `--box` out"):
            cockpit.launch(request)


def test_a_box_of_the_person_s_own_settings_is_not_called_an_option(tmp_path, project):
    settings = Settings(box="fake", boxes=("docker",), locked=("boxes",))
    with (
        closing(fake_cockpit(tmp_path / "home", backend=FakeBackend(), settings=settings)) as cockpit,
        pytest.raises(UsageError, match=r"the setting `boxes` says.*Leave `box` out of your settings;"),
    ):
        cockpit.launch(RunRequest("true", "bash", project=project))


@pytest.mark.parametrize(
    ("locked", "brain", "model"),
    [
        ("brain", "two", "m"),
        ("model", "one", "n"),
        ("endpoint", "pydantic_ai", "openai:m"),
    ],
)
def test_nobody_else_audits_than_is_locked(locked, brain, model):
    settings = Settings(brain="one", model="m", endpoint="vllm", locked=(locked,))
    check_locked_audit("one", "m", settings, str)
    check_locked_audit(brain, model, Settings(brain="one", model="m", endpoint="vllm"), str)
    with pytest.raises(UsageError, match=f"the setting `{locked}` says"):
        check_locked_audit(brain, model, settings, str)


@pytest.mark.parametrize(("locked", "asked"), [(("brain",), "one"), ((), "two")])
def test_a_chat_s_text_is_put_to_no_other_brain_than_is_locked(tmp_path, locked, asked):
    brains = [FakeBrain(["{}"], name=name) for name in ("one", "two")]
    settings = Settings(brain="one", locked=locked)
    with closing(fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=brains, settings=settings)) as cockpit:
        handle, _ = cockpit.classify(Message("what is this?", brain="two"))
        handle.result(60)
        assert views.runs(cockpit.journal)[0].brain == asked


@pytest.mark.parametrize(("model", "goes"), [("m", True), ("vllm:m", True), ("ollama:m", False), ("other:m", False)])
def test_a_model_names_no_other_endpoint_than_is_locked(tmp_path, project, model, goes):
    endpoints = {"other": EndpointSettings(url="http://127.0.0.1:9/v1")}
    settings = Settings(brain="pydantic_ai", endpoint="vllm", endpoints=endpoints, locked=("endpoint",))
    brains = [FakeBrain(["Done."], name="pydantic_ai")]
    with closing(fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=brains, settings=settings)) as cockpit:
        request = RunRequest("do it", project=project, model=model)
        if goes:
            assert cockpit.launch(request).result(60).status == "done"
            return
        with pytest.raises(UsageError, match="the setting `endpoint` says"):
            cockpit.launch(request)


@pytest.mark.parametrize(
    ("said", "locked", "usd"), [(None, True, 2.0), (1.0, True, 1.0), (5.0, True, 2.0), (5.0, False, 5.0)]
)
def test_an_audit_costs_no_more_than_is_locked(said, locked, usd):
    settings = Settings(budget_usd=2.0, locked=("budget_usd",) if locked else ())
    assert audit_budget(said, settings) == usd
