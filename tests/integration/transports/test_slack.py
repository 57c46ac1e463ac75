"""Slack by the real Bolt library, against a server on this machine."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.cockpit.transports.conversations import ChatTerms, Conversations
from kagura_kernel.cockpit.transports.slack import SlackTokens, SlackTransport
from kagura_kernel.cockpit.transports.transport import Heard, Post, Said, TransportError
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import eventually

pytest.importorskip("slack_bolt")

from kagura_kernel.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

ANN = "U0ANN"


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


@pytest.fixture
async def slack(server: SlackServer) -> AsyncIterator[SlackTransport]:
    slack = transport(server)
    yield slack
    await slack.close()


def transport(server: SlackServer, bot: str = BOT_TOKEN) -> SlackTransport:
    return SlackTransport(SlackTokens(Secret(bot), Secret(APP_TOKEN)), api=server.api, files=server.files)


async def listening(slack: SlackTransport) -> list[Said]:
    told: list[Said] = []

    async def hear(heard: Heard) -> None:
        if isinstance(heard, Said):
            told.append(heard)

    await slack.open(hear)
    return told


def in_a_channel(**more: object) -> dict[str, object]:
    event = {"type": "app_mention", "channel": "C0HALL", "user": ANN, "text": "<@U0BOT> go", "ts": "1.1"}
    return {**event, **more}


async def test_a_mention_and_the_message_that_it_stands_in_are_one(server, slack):
    told = await listening(slack)
    await server.event(in_a_channel(text="<@U0BOT> count &lt;b&gt; in <https://example.org|this>"))
    await server.event(in_a_channel(type="message", channel_type="im"))
    assert [(one.message_id, one.thread) for one in told] == [("C0HALL:1.1", "C0HALL:1.1")] * 2
    assert told[0].text == "count <b> in https://example.org"


async def test_what_no_person_has_just_said_to_us_is_left_alone(server, slack):
    told = await listening(slack)
    await server.event(in_a_channel(type="message", channel_type="channel"))
    await server.event(in_a_channel(bot_id="B9"))
    await server.event(in_a_channel(subtype="message_changed"))
    await server.event(in_a_channel(user=None))
    await server.event(in_a_channel(ts="2.2", thread_ts="1.1"))
    assert [one.thread for one in told] == ["C0HALL:1.1"]
    assert len(told) == 1


async def test_a_connection_that_ends_is_made_again(server, slack):
    told = await listening(slack)
    await server.drop()
    await eventually(server.connected)
    await server.say(ANN, "still there?")
    assert [one.text for one in told] == ["still there?"]


async def test_a_token_that_is_not_taken_is_an_error_without_the_token(server):
    slack = transport(server, "xoxb-wrong-and-secret")
    with pytest.raises(TransportError, match="invalid_auth") as caught:
        await listening(slack)
    assert "xoxb-wrong-and-secret" not in caught.value.message


async def test_the_token_goes_to_slack_alone(server, slack):
    told = await listening(slack)
    elsewhere = [{"id": "F1", "name": "x", "size": 3, "url_private_download": "http://127.0.0.1:9/files/x"}]
    await server.event(in_a_channel(files=elsewhere))
    with pytest.raises(TransportError, match="outside of Slack"):
        await told[0].files[0].read(10)


async def test_no_token_is_logged_or_kept_or_posted(server, slack, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    project = tmp_path / "project"
    project.mkdir()
    brain = FakeBrain(["Here."])
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[brain])
    conversations = Conversations(cockpit, slack, ChatTerms(frozenset({ANN}), project), SystemClock())
    try:
        await conversations.open()
        thread = await server.say(ANN, "go", files=[("a.txt", b"x")])
        await conversations.idle()
        assert "Here." in server.shown(thread)[0].text
        told = repr(brain.turns) + caplog.text + repr(server.requests)
    finally:
        await conversations.close()
        cockpit.close()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    for token in (BOT_TOKEN, APP_TOKEN):
        assert token not in told
        assert token.encode() not in kept


async def test_a_file_that_was_sent_along_reaches_the_run_as_a_variable(server, slack, tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[FakeBrain()])
    conversations = Conversations(cockpit, slack, ChatTerms(frozenset({ANN}), project), SystemClock())
    try:
        await conversations.open()
        await server.say(ANN, "look at it", files=[("my data.csv", b"a,b\n1,2\n")])
        await conversations.idle()
        crossed = [row.event for row in cockpit.journal.events(kinds=("variable.crossed",))]
        assert [event.model_dump()["name"] for event in crossed] == ["file_1_my_data_csv"]
        assert list(project.iterdir()) == []
    finally:
        await conversations.close()
        cockpit.close()


async def test_a_post_that_is_not_open_is_an_error(server):
    with pytest.raises(TransportError, match="not open"):
        await transport(server).post("D0:1", Post("x"))
