"""What the buttons of the forms do, and how a cell ends whose form nobody answers."""

import asyncio
import json
import os
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keyring
import pytest

from kagura_kernel.assembly.local_services import LocalService
from kagura_kernel.domain.errors import BrainNotConfigured, NotThisTime, RunKilled, WorkspaceRefused
from kagura_kernel.jupyter import forms, slots
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.jupyter.widgets.live_card import LiveCard
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.patience import eventually
from tests.support.keychain import Keychain
from tests.support.wheels import write_wheel

KEY = "sk-very-secret"
ERROR = BrainNotConfigured("No brain is configured.")


class Cockpit:
    """One that cannot begin a run until its settings were read anew."""

    def __init__(self, *errors: Exception, deadline: float = 60.0) -> None:
        self.approval_deadline = deadline
        self.launched: list[RunRequest] = []
        self.reread = 0
        self._errors = list(errors)

    def launch(self, request: RunRequest) -> str:
        self.launched.append(request)
        if self._errors:
            raise self._errors.pop(0)
        return "a handle"

    def reread_brains(self) -> None:
        self.reread += 1


class Front:
    """The front end: what it was shown, and a person's hand."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.cards: list[LiveCard] = []

    async def press(self, act: str, **fields: str) -> None:
        await eventually(lambda: bool(self.cards))
        self.cards[-1]._hear(None, {"act": act, "fields": fields}, [])

    async def says(self, text: str) -> None:
        await eventually(lambda: any(text in told for told, _ in self.told))

    def part(self, key: str) -> str:
        return str(self.cards[-1]._now[key]) if self.cards else ""


@pytest.fixture
def front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Front:
    """A new user's machine, on which one model answers."""
    found = Front()
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE_", "KAGURA_"))]:
        monkeypatch.delenv(name)
    places = {"HOME": tmp_path, "KAGURA_HOME": tmp_path / "data", "KAGURA_CONFIG": tmp_path / "config.toml"}
    for name, place in places.items():
        monkeypatch.setenv(name, str(place))
    monkeypatch.chdir(tmp_path)
    keychain = Keychain()
    monkeypatch.setattr(keyring, "get_keyring", lambda: keychain)
    monkeypatch.setattr(keyring, "set_password", keychain.set_password)
    monkeypatch.setattr(forms, "local_services", lambda _: [LocalService("ollama", ("qwen3:32b",))])
    monkeypatch.setattr(slots, "_display", lambda data, **_: _Handle(found, data))
    make = LiveCard.__init__

    def made(card: Any, *given: Any) -> None:
        make(card, *given)
        found.cards.append(card)

    monkeypatch.setattr(LiveCard, "__init__", made)
    monkeypatch.setattr(LiveCard, "tell", lambda _, text, about="": found.told.append((text, about)))
    return found


class _Handle:
    def __init__(self, front: Front, data: Any) -> None:
        self._front = front
        self.update(data)

    def update(self, data: Any, **_: Any) -> None:
        self._front.shown.append(json.dumps(data, default=str))


def begun(cockpit: Cockpit, place: Surface = Surface.NOTEBOOK, **request: Any) -> asyncio.Task[Any]:
    asked = RunRequest(task="hello", **request)
    return asyncio.create_task(forms.launch(None, cockpit, asked, place))  # type: ignore[arg-type]


def settings() -> str:
    path = Path(os.environ["KAGURA_CONFIG"])
    return path.read_text() if path.exists() else ""


async def test_a_model_that_was_found_is_chosen_and_no_other(front):
    cell = begun(Cockpit(ERROR, ERROR))
    await eventually(lambda: "qwen3:32b (ollama)" in front.part("here"))
    await front.press("use-here", Model="ollama:evil")
    await front.says("it is not among those that were found")
    await front.press("use-here", Model="ollama:qwen3:32b")
    assert await cell == "a handle"
    assert tomllib.loads(settings()) == {"brain": "pydantic_ai", "endpoint": "ollama", "model": "qwen3:32b"}


async def test_a_service_with_a_key_is_chosen_and_the_key_is_shown_nowhere(front):
    cell = begun(Cockpit(ERROR, ERROR))
    await front.press("use-service", URL="http://llm.example.com/v1", Model="m", Key=KEY)
    await front.says("a key is sent over https:// only")
    await front.press("use-service", URL="https://llm.example.com/v1/", Model="m", Key=KEY)
    assert await cell == "a handle"
    assert 'key_keyring = "kagura-kernel/llm-example-com"' in settings()
    said = [*front.shown, *(text for text, _ in front.told), *front.cards[-1]._now.values(), settings()]
    assert KEY not in json.dumps(said)
    assert KEY not in json.dumps(front.cards[-1].get_state(["label", "parts"]))


async def test_a_sign_in_is_looked_for_again(front, tmp_path):
    cell = begun(Cockpit(ERROR, ERROR))
    await front.press("signed-in")
    await front.says("Not signed in yet")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text('{"claudeAiOauth": {"refreshToken": "r"}}')
    await front.press("signed-in")
    assert await cell == "a handle"


@pytest.mark.slow
@pytest.mark.real_clock
@pytest.mark.parametrize(
    ("what", "part", "then"),
    [("", "here", "Use this model"), ("claude", "claude", "I have signed in")],
    ids=["services", "claude"],
)
async def test_what_is_missing_is_installed_by_its_button_and_no_pip_of_the_project_does_it(
    front, tmp_path, monkeypatch, what, part, then
):
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    wheels.mkdir()
    (tmp_path / "pip.py").write_text("raise SystemExit('a pip of the project')")
    install = "pip install 'the-library'"
    missing = lambda *_: "" if find_spec("the_library") else install  # noqa: E731
    monkeypatch.setattr(forms.brain_choice, f"{what}_LIBRARY".lstrip("_").upper(), "the-library")
    monkeypatch.setattr(forms.brain_choice, f"missing_{what or 'library'}", missing)
    act = f"install-{what}".rstrip("-")
    monkeypatch.syspath_prepend(site)
    # A real pip, which finds nothing but what lies here, and changes nothing but this.
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(wheels), "TARGET": str(site)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    cell = begun(Cockpit(ERROR, ERROR))
    await eventually(lambda: "Install it" in front.part(part))
    assert "pip install &#x27;the-library&#x27;" in front.part(part)
    await front.press(act)
    await front.says(f"It could not be installed. Type `{install}` in a terminal")
    assert "Install it" in front.part(part)
    write_wheel(wheels, "the-library", "1")
    await front.press(act)
    await eventually(lambda: then in front.part(part))
    assert "Install it" not in front.part(part) + front.part("service")
    await front.press("use-here", Model="ollama:qwen3:32b")
    assert await cell == "a handle"


async def test_without_a_keychain_no_key_is_asked_for(front, monkeypatch):
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)
    cell = begun(Cockpit(ERROR, ERROR))
    await eventually(lambda: "ANTHROPIC_API_KEY" in front.part("claude"))
    assert "password" not in front.part("claude") + front.part("service")
    await front.press("not-now")
    with pytest.raises(RunKilled, match="nothing was run"):
        await cell


async def test_a_choice_that_is_not_enough_is_said_with_the_variable_that_says_otherwise(front, monkeypatch):
    monkeypatch.setenv("KAGURA_MODEL", "another")
    cell = begun(Cockpit(ERROR, ERROR, ERROR))
    await eventually(lambda: "ollama" in front.part("here"))
    await front.press("use-here", Model="ollama:qwen3:32b")
    await eventually(lambda: "KAGURA_MODEL of this kernel" in front.part("head"))
    cell.cancel()
    with pytest.raises(RunKilled):
        await cell


async def test_what_was_set_up_since_the_kernel_began_is_taken_without_a_question(front):
    cockpit = Cockpit(ERROR)
    assert await begun(cockpit) == "a handle"
    assert (cockpit.reread, front.cards) == (1, [])


async def test_nobody_answers_and_the_cell_ends_with_its_error(front):
    with pytest.raises(BrainNotConfigured):
        await begun(Cockpit(ERROR, ERROR, deadline=0.0))
    assert "Nobody chose" in front.shown[-1]


async def test_a_front_end_without_widgets_is_not_waited_for(front, monkeypatch):
    monkeypatch.setattr(forms, "UNSEEN_SECONDS", 0.0)
    with pytest.raises(BrainNotConfigured):
        await begun(Cockpit(ERROR, ERROR))
    assert "Nobody chose" in front.shown[-1]


@pytest.mark.parametrize(
    "asked",
    [
        {"place": Surface.HEADLESS},
        {"place": Surface.CONSOLE},
        {"place": Surface.TERMINAL},
        {"place": Surface.INSIDE},
        {"background": True},
        {"seal": True},
        {"brain": "kagura_brain"},
    ],
)
async def test_where_nobody_can_choose_nothing_is_asked(front, asked):
    with pytest.raises(BrainNotConfigured):
        await begun(Cockpit(ERROR, ERROR), **asked)
    assert front.cards == []


async def test_a_folder_is_made_and_the_kernel_goes_there(front, tmp_path):
    refused = WorkspaceRefused(str(tmp_path), "it is, or holds, your home directory")
    cell = begun(Cockpit(refused))
    await eventually(lambda: "~/kagura-work" in front.part("folder"))
    await front.press("use-folder", Folder="/etc")
    await front.says("choose a folder that lies in your home directory")
    await front.press("use-folder", Folder="data/x")
    await front.says("private directory")
    await front.press("use-folder", Folder="~nobody-of-this-name/x")
    await front.says("names a user that is not known here")
    await front.press("use-folder", Folder="a\0b")
    await front.says("no path has such a letter")
    await front.press("use-folder", Folder="~/kagura-work")
    assert await cell == "a handle"
    assert Path.cwd() == tmp_path / "kagura-work"


async def test_a_project_that_was_named_is_not_asked_for(front, tmp_path):
    with pytest.raises(WorkspaceRefused):
        await begun(Cockpit(WorkspaceRefused(str(tmp_path), "no")), project=tmp_path)
    assert front.cards == []


async def test_set_up_asks_in_a_notebook_alone(front):
    cockpit: Any = Cockpit()
    with pytest.raises(NotThisTime, match="kagura-kernel setup brain"):
        await forms.set_up(cockpit, Surface.CONSOLE)
    choice = asyncio.create_task(forms.set_up(cockpit, Surface.NOTEBOOK))
    await eventually(lambda: "ollama" in front.part("here"))
    await front.press("use-here", Model="ollama:qwen3:32b")
    assert await choice == "pydantic_ai: qwen3:32b"
