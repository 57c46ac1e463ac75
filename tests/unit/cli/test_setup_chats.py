"""A chat is set up at a terminal: its tokens go into the keychain, and it is tried against a Slack on this machine."""

import asyncio
import os
import re
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import keyring
import pytest

from kagura_kernel.assembly import load_settings
from kagura_kernel.cli.setup import _GUIDES, Talk, Walk
from kagura_kernel.domain.errors import ConfigurationError

pytest.importorskip("slack_bolt")

from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

WRONG = "xoxb-very-secret"
DOCS = Path(__file__).resolve().parents[3] / "docs"


S = TypeVar("S", bound=AbstractAsyncContextManager[Any])


@contextmanager
def elsewhere(server: S) -> Iterator[S]:
    """A server on a loop of its own, as it is elsewhere for whoever sets it up."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(30)
    yield server
    asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def server() -> Iterator[SlackServer]:
    """A Slack on this machine."""
    with elsewhere(SlackServer()) as server:
        yield server


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """What is in the keychain."""
    kept: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(keyring, "set_password", lambda service, name, secret: kept.update({(service, name): secret}))
    monkeypatch.setattr(keyring, "get_password", lambda service, name: kept.get((service, name)))
    for module in ("cli.setup", "membrane.credentials.secret"):
        monkeypatch.setattr(f"kagura_kernel.{module}.keychain_name", lambda: "a chain")
    return kept


Answer = Callable[..., str]


@pytest.fixture
def walk() -> Answer:
    """Walks through the chats with these answers and secrets, and tells what was said."""

    def through(*answers: str, secrets: tuple[str, ...] = (), asks: bool = True) -> str:
        said: list[str] = []
        coming, unseen = iter(answers), iter(secrets)

        def ask(question: str) -> str:
            said.append(question)
            return next(coming)

        def ask_secret(question: str) -> str:
            said.append(question)
            return next(unseen)

        found = Walk(os.environ, asks=asks, talk=Talk(ask, ask_secret, said.append))
        found.through("transport", load_settings(os.environ))
        assert (next(coming, None), next(unseen, None)) == (None, None)
        assert not [secret for secret in secrets if secret and secret in "\n".join(said)]
        return "\n".join(said)

    return through


def table(file: Path, name: str = "slack") -> dict[str, Any]:
    """What the settings say of a chat."""
    return dict(tomllib.loads(file.read_text())["transports"][name])


def in_variables(file: Path, server: SlackServer, monkeypatch: pytest.MonkeyPatch, bot: str) -> None:
    """Settings of a chat on this machine whose tokens are in variables."""
    monkeypatch.setenv("BOT", bot)
    monkeypatch.setenv("APP", APP_TOKEN)
    tokens = 'bot_token_env = "BOT"\napp_token_env = "APP"\n'
    file.write_text(f'[transports.slack]\napi = "{server.api}"\n{tokens}operators = [\n  "U7",\n]\n')


def test_slack_is_set_up_and_lets_us_in(walk, file, chain, server, tmp_path, monkeypatch):
    in_variables(file, server, monkeypatch, WRONG)
    said = walk("2", "ann", "U1, W2 U1", "work", str(tmp_path), secrets=(BOT_TOKEN, APP_TOKEN))
    assert "Slack let us in." in said
    assert "ann is no id of Slack" in said
    assert "That is no folder" in said
    assert table(file) == {
        "api": server.api,
        "bot_token_keyring": "kagura-kernel/slack-bot_token",
        "app_token_keyring": "kagura-kernel/slack-app_token",
        "operators": ["U1", "W2"],
        "project": str(tmp_path),
    }
    assert chain == {
        ("kagura-kernel", "slack-bot_token"): BOT_TOKEN,
        ("kagura-kernel", "slack-app_token"): APP_TOKEN,
    }
    assert [method for method, _ in server.requests][:1] == ["auth.test"]


@pytest.mark.usefixtures("chain")
def test_whoever_answers_with_the_enter_key_leaves_a_chat_as_it_is(walk, file, server, monkeypatch):
    in_variables(file, server, monkeypatch, BOT_TOKEN)
    before = file.read_text()
    walk("")
    assert file.read_text() == before
    assert "Slack let us in." in walk("2", "", "", secrets=("", ""))
    assert file.read_text() == before
    assert os.environ["BOT"] == BOT_TOKEN


@pytest.mark.usefixtures("chain")
def test_what_a_chat_answers_to_a_wrong_token_is_told_and_the_token_is_not(walk, file, server, monkeypatch):
    in_variables(file, server, monkeypatch, WRONG)
    said = walk("2", "", "", secrets=("", ""))
    assert "It does not work yet: Slack did not let us in: invalid_auth." in said
    assert WRONG not in said


@pytest.mark.usefixtures("chain")
def test_discord_is_set_up_and_lets_us_in_and_a_wrong_token_does_not(walk, file):
    pytest.importorskip("discord")
    from tests.support.discord_server import TOKEN, DiscordServer

    with elsewhere(DiscordServer()) as server:
        file.write_text(f'[transports.discord]\napi = "{server.api}"\nbot_token_env = "BOT"\n')
        assert "Discord let us in." in walk("3", "U1", "900", "", secrets=(TOKEN,))
        assert "Discord did not let us in" in walk("3", "", "", secrets=(WRONG,))
    assert table(file, "discord") == {
        "api": server.api,
        "bot_token_keyring": "kagura-kernel/discord-bot_token",
        "operators": ["900"],
    }


def test_without_a_keychain_it_is_asked_where_a_token_is_kept(walk, file, server, tmp_path, monkeypatch):
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)
    in_variables(file, server, monkeypatch, WRONG)
    place = tmp_path / "bot"
    place.write_text(BOT_TOKEN)
    place.chmod(0o600)
    said = walk("2", str(place), "", "", "")
    assert "in files or variables here: this machine has no keychain" in said
    assert "Slack let us in." in said
    assert table(file) == {
        "api": server.api,
        "bot_token_file": str(place),
        "app_token_env": "APP",
        "operators": ["U7"],
    }


@pytest.mark.usefixtures("chain")
def test_a_keychain_that_does_not_take_a_token_is_told_and_another_place_asked_for(walk, file, server, monkeypatch):
    def locked(*_: str) -> None:
        raise RuntimeError("locked")

    in_variables(file, server, monkeypatch, WRONG)
    monkeypatch.setattr(keyring, "set_password", locked)
    monkeypatch.setenv("OTHER", BOT_TOKEN)
    said = walk("2", "OTHER", "", "", secrets=(BOT_TOKEN, ""))
    assert "It was not kept: the keychain does not take it (RuntimeError)." in said
    assert "Slack let us in." in said
    assert table(file)["bot_token_env"] == "OTHER"


@pytest.mark.usefixtures("chain")
def test_a_token_that_is_given_in_place_of_its_place_is_refused_and_not_repeated(walk, file):
    with pytest.raises(ConfigurationError) as refused:
        walk("2", WRONG, "APP", "", "", secrets=("", ""))
    assert "not its value" in refused.value.message
    assert WRONG not in refused.value.message
    assert not file.exists()


@pytest.mark.usefixtures("chain")
def test_a_chat_without_its_tokens_is_not_written_down(walk, file):
    assert "Nothing was written" in walk("3", "", secrets=("",))
    assert not file.exists()


@pytest.mark.usefixtures("chain")
def test_a_library_that_is_missing_is_named_and_nothing_is_tried(walk, file, monkeypatch):
    monkeypatch.setattr("kagura_kernel.assembly.chats.find_spec", lambda _: None)
    monkeypatch.setattr("kagura_kernel.cli.setup._try", pytest.fail)
    assert "pip install 'kagura-kernel[discord]'" in walk("3", "900", "", secrets=("a-token",))
    assert table(file, "discord") == {
        "bot_token_keyring": "kagura-kernel/discord-bot_token",
        "operators": ["900"],
    }


def test_where_nobody_is_asked_it_is_told_what_to_write(walk, file, prints):
    told = walk(asks=False)
    example = re.search(r"(?m)^  \[transports\.slack\]\n(?:  .*\n)+", told)
    assert example is not None
    assert set(tomllib.loads(example[0])["transports"]["slack"]) == {"bot_token_file", "app_token_file", "operators"}
    assert "chats  none is set up" in prints("setup", "transport")
    assert not file.exists()
    file.write_text('[transports.discord]\nbot_token_env = "NO_BOT"\n')
    assert "no such environment variable is set" in prints("setup", "transport", code=3)


@pytest.mark.parametrize("name", list(_GUIDES))
def test_setup_names_all_that_the_page_asks_of_an_app_and_no_right_that_the_page_does_not_explain(name):
    page = (DOCS / "transports.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| {_GUIDES[name].title},"))
    assert [word for word in re.findall(r"`([^`]+)`", row.split("|")[4]) if word not in _GUIDES[name].app] == []
    rights = re.findall(r"\b[a-z_]+:[a-z]+\b", _GUIDES[name].app)
    assert [right for right in rights if f"`{right}`" not in page] == []


@pytest.mark.parametrize("name", list(_GUIDES))
def test_the_tokens_that_are_asked_for_are_those_that_the_chat_has(name):
    from kagura_kernel.assembly.chats import CHATS

    assert tuple(_GUIDES[name].tokens) == CHATS[name].tokens
    assert set(_GUIDES) == set(CHATS)
