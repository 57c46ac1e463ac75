"""Chats are put together from references to tokens, never from tokens."""

from __future__ import annotations

import pytest

from kagura_kernel.assembly.transports import make_transport
from kagura_kernel.domain.errors import ConfigurationError, NotThisTime, SecretUnavailable, UnknownName

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
    monkeypatch.setattr("kagura_kernel.assembly.transports.find_spec", lambda _: None)
    with pytest.raises(NotThisTime, match=r"kagura-kernel\[slack\]"):
        await make_transport("slack", SLACK, {})
