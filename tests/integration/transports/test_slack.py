"""Slack by the real Bolt library, against a server on this machine."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.actions import ChatTerms
from kagura_kernel.cockpit.transports.conversations import Conversations
from kagura_kernel.cockpit.transports.slack import SlackTokens, SlackTransport
from kagura_kernel.cockpit.transports.transport import (
    Heard,
    Post,
    PostRefused,
    Said,
    TransportError,
    TransportRefused,
)
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.journal import views
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang, Step
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import eventually

pytest.importorskip("slack_bolt")

from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

ANN = "U0ANN"
MARK = "0" * 32
HOST = Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"})

Talk = Callable[[Sequence[Step]], Awaitable[tuple[Conversations, Cockpit]]]


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


@pytest.fixture
async def slack(server: SlackServer) -> AsyncIterator[SlackTransport]:
    slack = transport(server)
    yield slack
    await slack.close()


@pytest.fixture
async def talk(slack: SlackTransport, tmp_path: Path, project: Path) -> AsyncIterator[Talk]:
    """Serves Slack with a cockpit whose brain says this."""
    opened: list[tuple[Conversations, Cockpit]] = []

    async def make(script: Sequence[Step]) -> tuple[Conversations, Cockpit]:
        cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[FakeBrain(script)])
        conversations = Conversations(cockpit, slack, ChatTerms(frozenset({ANN}), project), SystemClock())
        opened.append((conversations, cockpit))
        await conversations.open()
        return conversations, cockpit

    yield make
    for conversations, cockpit in opened:
        await conversations.close()
        cockpit.close()


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
    assert told[0].text == "count <b> in this (https://example.org)"


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


@pytest.mark.parametrize(("prepare", "word"), [("revoke", "token_revoked"), ("deny", "missing_scope")])
async def test_an_app_token_that_is_not_taken_from_the_start_is_told_at_once(server, slack, prepare, word):
    if prepare == "revoke":
        server.revoke(APP_TOKEN)
    else:
        server.deny("apps.connections.open")
    with pytest.raises(TransportRefused, match=f"did not let us in: {word}"):
        await listening(slack)


async def test_the_token_goes_to_slack_alone(server, slack):
    told = await listening(slack)
    elsewhere = [{"id": "F1", "name": "x", "size": 3, "url_private_download": "http://127.0.0.1:9/files/x"}]
    await server.event(in_a_channel(files=elsewhere))
    with pytest.raises(TransportError, match="outside of Slack"):
        await told[0].files[0].read(10)


async def test_no_token_is_logged_or_kept_or_posted(server, slack, tmp_path, project, caplog):
    caplog.set_level(logging.DEBUG)
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


async def test_a_file_that_was_sent_along_reaches_the_run_as_a_variable(server, slack, tmp_path, project):
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


async def test_a_post_that_is_out_though_nobody_heard_so_is_found_instead_of_said_again(server, slack):
    await listening(slack)
    await slack.post("D0ROOM:1.1", Post("one"))
    await slack.post("D0ROOM:1.1", Post("two"))
    server.lose(1)
    with pytest.raises(TransportError):
        await slack.post("D0ROOM:1.1", Post("three", mark=MARK))
    found = await slack.post("D0ROOM:1.1", Post("three", mark=MARK, may_be_out=True))
    assert [(post.post_id, post.text) for post in server.shown("D0ROOM:1.1")][2:] == [(found, "three")]


async def test_where_we_may_not_read_it_is_rather_said_twice_than_not_at_all(server, slack):
    await listening(slack)
    server.readable = False
    for may_be_out in (False, True):
        await slack.post("C0HALL:1.1", Post("one", mark=MARK, may_be_out=may_be_out))
    assert [post.text for post in server.shown("C0HALL:1.1")] == ["one", "one"]


async def test_a_post_that_was_taken_away_is_an_error_that_does_not_pass(server, slack):
    await listening(slack)
    post_id = await slack.post("D0ROOM:1.1", Post("Works"))
    server.take_away("D0ROOM:1.1")
    with pytest.raises(PostRefused, match="message_not_found"):
        await slack.edit("D0ROOM:1.1", post_id, Post("Done"))


async def test_a_progress_that_was_taken_away_comes_back_as_the_answer(server, talk):
    conversations, cockpit = await talk([HOST, "It was 42."])
    thread = await server.say(ANN, "go")
    await eventually(cockpit.pending)
    await eventually(lambda: len(server.shown(thread)) == 2)
    server.take_away(thread)
    cockpit.decide(cockpit.pending()[0].id, allow=True, by="bob", via="sidebar")
    await conversations.idle()
    told = [post.text for post in server.shown(thread)]
    assert [sum(words in text for text in told) for words in ("It was 42.", "Allowed")] == [1, 1]


async def test_the_last_word_gets_out_however_often_slack_has_had_too_much(server, talk):
    conversations, _ = await talk(["It was 42."])
    server.limit(7)
    thread = await server.say(ANN, "go")
    await conversations.idle()
    assert ["It was 42." in post.text for post in server.shown(thread)] == [True]


async def test_a_slash_command_is_answered_to_who_gave_it_alone(server, talk):
    conversations, cockpit = await talk([Hang()])
    thread = await server.say(ANN, "go")
    await eventually(cockpit.runs)
    run_id = cockpit.runs()[0].run_id
    for text in ("status", "apply", "kill", f"/kill {run_id}", ""):
        before = len(server.whispers)
        await server.command(ANN, text)
        await eventually(lambda before=before: len(server.whispers) == before + 1)
    await conversations.idle()
    told = dict(zip(("status", "apply", "kill", "kill RUN", "help"), server.whispers, strict=True))
    assert {to for to, _ in server.whispers} == {ANN}
    assert run_id in told["status"][1]
    assert "write it in one" in told["apply"][1]
    assert "needs a run" in told["kill"][1]
    assert told["kill RUN"][1] == f"{run_id} is being stopped."
    assert "/approve [APPROVAL]" in told["help"][1]
    assert cockpit.runs()[0].status == "killed"
    assert [post.text.startswith(f"{run_id} was stopped by ") for post in server.shown(thread)] == [True]


async def test_a_slash_command_whose_way_back_is_closed_is_answered_by_the_app_itself(server, talk):
    conversations, _ = await talk([])
    await server.command(ANN, "status", expired=True)
    await conversations.idle()
    assert server.whispers == [(ANN, "Nothing goes on.")]
    assert [method for method, _ in server.requests].count("chat.postEphemeral") == 1


async def test_a_slash_command_of_somebody_else_is_refused_and_recorded(server, talk):
    conversations, cockpit = await talk([])
    await server.command("U0EVE", "status")
    await conversations.idle()
    assert server.whispers == []
    refused = [row.event.model_dump() for row in cockpit.journal.events(kinds=("message.refused",))]
    assert [(one["operator"], one["why"]) for one in refused] == [("U0EVE", "whoever sent it is no operator")]


async def test_who_has_started_a_run_is_on_record(server, talk):
    conversations, cockpit = await talk(["Done."])
    await server.say(ANN, "go")
    await conversations.idle()
    started = cockpit.journal.events(kinds=("run.started",))[0].event.model_dump()
    assert (started["origin"], started["started_by"]) == ("slack", f"slack:{ANN}")
    assert [row.user for row in views.runs(cockpit.journal)] == [f"slack:{ANN}"]


async def test_a_person_of_another_workspace_is_refused_and_recorded_whatever_they_send(server, talk):
    conversations, cockpit = await talk([Hang()])
    await server.event(in_a_channel(), team="TEVIL")
    await server.event(in_a_channel(user_team="TEVIL", ts="2.2"))
    await server.command(ANN, "status", team="TEVIL")
    await server.click(ANN, "D0ROOM:1.1", "1.2", f"allow:app-{'0' * 14}:{'0' * 32}", team="TEVIL")
    await conversations.idle()
    refused = [row.event.model_dump() for row in cockpit.journal.events(kinds=("message.refused",))]
    assert {(one["operator"], one["why"]) for one in refused} == {(ANN, "it comes from another workspace")}
    assert [one["left_out"] for one in refused] == [0, 0, 1]
    assert cockpit.runs() == []
    assert server.whispers == []
    assert server.shown("C0HALL:1.1") == []


async def test_an_app_token_that_is_taken_no_more_is_seen_when_the_connection_is_made_again(server, slack):
    await listening(slack)
    server.revoke(APP_TOKEN)
    ended = asyncio.ensure_future(slack.ended())
    await server.drop()
    with pytest.raises(TransportRefused, match="token_revoked"):
        await ended


async def test_a_bot_token_that_is_taken_no_more_is_seen_though_nobody_says_anything(server, slack, monkeypatch):
    monkeypatch.setattr("kagura_kernel.cockpit.transports.slack.CHECK_SECONDS", 0.01)
    await listening(slack)
    ended = asyncio.ensure_future(slack.ended())
    asked = len(server.requests)
    await eventually(lambda: len(server.requests) > asked + 1)
    assert not ended.done()
    server.revoke(BOT_TOKEN)
    with pytest.raises(TransportRefused, match="token_revoked"):
        await ended


async def test_a_post_with_a_token_that_is_taken_no_more_ends_the_chat(server, talk):
    conversations, cockpit = await talk([Hang()])
    over = asyncio.ensure_future(conversations.over())
    thread = await server.say(ANN, "go")
    await eventually(lambda: server.shown(thread) and cockpit.runs())
    server.revoke(BOT_TOKEN)
    cockpit.kill(cockpit.runs()[0].run_id, by="ann")
    with pytest.raises(TransportRefused, match="token_revoked"):
        await over


async def test_a_right_that_one_call_lacks_is_a_failure_of_that_call_alone(server, talk, slack):
    conversations, _ = await talk([])
    over = asyncio.ensure_future(conversations.over())
    server.deny("files.getUploadURLExternal")
    with pytest.raises(PostRefused, match="missing_scope"):
        await slack.upload("D0ROOM:1.1", "a.txt", b"x")
    thread = await server.say(ANN, "status")
    await eventually(lambda: server.shown(thread))
    assert not over.done()
    over.cancel()


async def test_an_envelope_that_is_none_of_slack_s_is_heard_by_nobody(server, slack):
    told: list[Heard] = []

    async def hear(heard: Heard) -> None:
        told.append(heard)

    await slack.open(hear)
    button = {"type": "button", "block_id": "b", "action_id": "kagura-0", "value": "x"}
    forged = {"type": "block_actions", "user": {"id": ANN}, "channel": {"id": "D0ROOM"}, "actions": [button]}
    await server.deliver("interactive", forged)
    await server.deliver("slash_commands", {"command": "/kagura", "text": "status", "user_id": ANN})
    await server.say(ANN, "hello")
    assert [type(one) for one in told] == [Said]


async def test_a_post_that_is_not_open_is_an_error(server):
    with pytest.raises(TransportError, match="not open"):
        await transport(server).post("D0:1", Post("x"))
