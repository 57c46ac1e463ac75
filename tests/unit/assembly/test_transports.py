"""Chats are put together from references to tokens, never from tokens."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.assembly import check_settings_text, use_cockpit
from kagura_kernel.assembly.chat_server import check_served, make_server
from kagura_kernel.assembly.transports import make_transport
from kagura_kernel.cockpit.cockpit import Cockpit, CockpitParts
from kagura_kernel.domain.errors import ConfigurationError, NotInstalled, NotThisTime, SecretUnavailable, UnknownName
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until

SLACK = {"bot_token_env": "BOT", "app_token_env": "APP", "operators": ["U1"]}


async def test_a_token_in_a_variable_is_taken_out_of_the_environment():
    pytest.importorskip("slack_bolt")
    environ = {"BOT": "xoxb-very-secret", "APP": "xapp-very-secret", "PATH": "/bin"}
    transport, terms = await make_transport("slack", SLACK, environ)
    assert environ == {"PATH": "/bin"}
    assert terms.operators == {"U1"}
    assert transport.name == "slack"
    assert "very-secret" not in f"{transport!r} {vars(transport)!r} {terms!r}"


async def test_a_token_may_lie_in_the_keychain():
    pytest.importorskip("slack_bolt")
    asked = []

    def keyring(service, username):
        asked.append((service, username))
        return "xapp-very-secret"

    table = {"bot_token_env": "BOT", "app_token_keyring": "kagura/app"}
    await make_transport("slack", table, {"BOT": "xoxb-very-secret"}, keyring)
    assert asked == [("kagura", "app")]


async def test_without_a_list_nobody_is_an_operator():
    pytest.importorskip("slack_bolt")
    table = {key: value for key, value in SLACK.items() if key != "operators"}
    _, terms = await make_transport("slack", table, {"BOT": "b", "APP": "a"})
    assert terms.operators == frozenset()


async def test_every_wrong_field_is_told_and_no_value_is():
    pytest.importorskip("slack_bolt")
    table = {"bot_token": "xoxb-very-secret", "operators": "U1", "colour": "very-secret", "brain": 3}
    with pytest.raises(ConfigurationError) as caught:
        await make_transport("slack", table, {})
    assert len(caught.value.problems) == 5
    assert "very-secret" not in caught.value.message


async def test_a_token_that_is_not_there_is_an_error():
    pytest.importorskip("slack_bolt")
    with pytest.raises(SecretUnavailable):
        await make_transport("slack", SLACK, {"BOT": "b"})


async def test_a_chat_that_nobody_knows_is_an_error():
    with pytest.raises(UnknownName, match="slack"):
        await make_transport("slak", {}, {})


async def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("kagura_kernel.assembly.chats.find_spec", lambda _: None)
    with pytest.raises(NotInstalled, match=r"kagura-kernel\[slack\]"):
        await make_transport("slack", SLACK, {})


# ------------------------------------------------------------------ where it is


@pytest.mark.parametrize(
    ("more", "api", "files"),
    [
        ({}, "https://slack.com/api/", "https://files.slack.com/"),
        ({"api": "https://slack.example/api"}, "https://slack.example/api/", "https://slack.example/"),
        ({"api": "http://127.0.0.1:8080/api/"}, "http://127.0.0.1:8080/api/", "http://127.0.0.1:8080/"),
        (
            {"api": "https://slack-gov.com/api/", "files": "https://files.slack-gov.com"},
            "https://slack-gov.com/api/",
            "https://files.slack-gov.com/",
        ),
    ],
)
async def test_another_slack_is_asked_where_its_table_says(more, api, files):
    pytest.importorskip("slack_bolt")
    transport, _ = await make_transport("slack", SLACK | more, {"BOT": "b", "APP": "a"})
    assert (vars(transport)["_api"], vars(transport)["_files"]) == (api, files)


async def test_another_discord_is_asked_where_its_table_says():
    pytest.importorskip("discord")
    table = {"bot_token_env": "BOT", "api": "http://127.0.0.1:8080/api/v10"}
    transport, _ = await make_transport("discord", table, {"BOT": "b"})
    assert vars(transport)["_api"] == "http://127.0.0.1:8080/api/v10"


async def test_a_project_may_lie_below_the_home_directory(tmp_path, monkeypatch):
    pytest.importorskip("slack_bolt")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    _, terms = await make_transport("slack", SLACK | {"project": "~/work"}, {"BOT": "b", "APP": "a"})
    assert terms.project == tmp_path / "work"


async def test_a_chat_whose_project_is_not_there_is_not_made_and_its_tokens_are_not_read(tmp_path):
    pytest.importorskip("slack_bolt")
    with pytest.raises(ConfigurationError, match=r"transports\.slack\.project: .* is no folder"):
        await make_transport("slack", SLACK | {"project": str(tmp_path / "none")}, {})


# --------------------------------------------------------------- in the settings

WRONG = """
[transports.slack]
bot_token = "xoxb-very-secret"
app_token_env = "xapp-very-secret"
api = "http://slack.very-secret.example/api/"
operators = ["U1", 2]
colour = "very-secret"
[transports.discord]
project = "very-secret"
[transports.slak]
bot_token_env = "BOT"
[transports."Very Secret"]
"""


def test_every_problem_of_every_chat_is_told_at_once_by_its_field_and_no_value_is():
    with pytest.raises(ConfigurationError) as caught:
        check_settings_text(WRONG, "config.toml")
    told = dict(problem.split(": ", 1) for problem in caught.value.problems)
    assert set(told) == {
        "transports.slack.bot_token",
        "transports.slack.app_token_env",
        "transports.slack.api",
        "transports.slack.operators.1",
        "transports.slack.colour",
        "transports.discord.bot_token",
        "transports.discord.project",
        "transports.slak",
        "transports",
    }
    assert "one of bot_token_env, bot_token_file, bot_token_keyring" in told["transports.slack.bot_token"]
    assert "https:// only" in told["transports.slack.api"]
    assert "slack, discord" in told["transports.slak"]
    assert "ery-secret" not in caught.value.message
    assert "Very Secret" not in caught.value.message


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            '[transports.slack]\noperators = ["@very-secret"]',
            "transports.slack.operators.0: it must be a member id of Slack",
        ),
        (
            '[transports.discord]\noperators = ["very-secret"]',
            "transports.discord.operators.0: it must be a user id of Disc",
        ),
        ("[transports.discord]\noperators = [900]", "transports.discord.operators.0: it must be a text, in quotes"),
        ('[transports.discord]\noperators = "900"', "transports.discord.operators: it must be a list of ids"),
        ('[transports.slack]\noperators = [" U1"]', "transports.slack.operators.0"),
        ('[transports.discord]\nbrain = "very-secret"', "transports.discord.brain: there is no such brain"),
    ],
)
def test_operators_are_ids_in_a_list_and_a_brain_is_one_that_there_is(table, told):
    with pytest.raises(ConfigurationError) as caught:
        check_settings_text(table, "config.toml")
    assert told in str(caught.value.problems)
    assert "very-secret" not in caught.value.message


def test_a_chat_that_is_no_table_is_told_too():
    with pytest.raises(ConfigurationError, match=r"transports\.slack: "):
        check_settings_text('[transports]\nslack = "xoxb"\n', "config.toml")


def test_tables_that_are_right_are_taken():
    check_settings_text(
        '[transports.slack]\nbot_token_env = "BOT"\napp_token_file = "~/app"\noperators = ["U1"]\nproject = "~/work"\n'
        'brain = "claude"\napi = "http://localhost:1234/api/"\n[transports.discord]\nbot_token_keyring = "a/b"\n',
        "config.toml",
    )


SLACK_OF_SERVING = '[transports.slack]\noperators = ["U1"]\nbot_token_env = "THE_BOT"\napp_token_env = "THE_APP"\n'
TOKENS = {"THE_BOT": "xoxb-secret", "THE_APP": "xapp-secret"}


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """That of a server with a Slack, whose cockpit tells what it was made of."""
    pytest.importorskip("slack_bolt")
    (tmp_path / "config.toml").write_text(SLACK_OF_SERVING)
    found = {"KAGURA_CONFIG": str(tmp_path / "config.toml"), "KAGURA_HOME": str(tmp_path / "home")}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    yield found | TOKENS
    use_cockpit(None)


def nothing() -> None:
    return None


async def test_what_was_left_behind_is_seen_to_when_the_server_starts(tmp_path, environ):
    seen: list[str] = []
    said: list[str] = []

    async def sweep() -> None:
        seen.append("boxes swept")

    def join(parts: CockpitParts) -> Cockpit:
        return Cockpit(replace(parts, sweep_boxes=sweep, lost=("run-1", "run-2")))

    def make(_: Mapping[str, str]) -> Cockpit:
        seen.append(f"made with {sorted(TOKENS.keys() & environ.keys())}")
        return fake_cockpit(tmp_path / "home", backend=FakeBackend(), join=join)

    use_cockpit(make)
    await make_server(environ, said.append, nothing)
    wait_until(lambda: "boxes swept" in seen)
    assert seen[0] == "made with []"
    assert said == ["2 runs were lost with the process that ran them: run-1, run-2."]


async def test_a_token_that_is_missing_is_told_before_a_cockpit_is_made(environ):
    def make(_: Mapping[str, str]) -> Cockpit:
        raise AssertionError("a cockpit was made")

    use_cockpit(make)
    del environ["THE_APP"]
    with pytest.raises(SecretUnavailable):
        await make_server(environ, print, nothing)


def test_settings_without_a_chat_and_settings_that_are_wrong_are_refused(environ):
    check_served(environ)
    file = Path(environ["KAGURA_CONFIG"])
    file.write_text("")
    with pytest.raises(NotThisTime, match="setup transport"):
        check_served(environ)
    file.write_text('[transports.slack]\noperators = "U1"\n')
    with pytest.raises(ConfigurationError, match="operators"):
        check_served(environ)
    assert "THE_BOT" not in os.environ
