"""Discord by the real library, against a server on this machine."""

import asyncio
import warnings
from collections.abc import AsyncIterator

import pytest

from kagura_kernel.cockpit.transports.discord import DiscordTransport
from kagura_kernel.cockpit.transports.transport import Heard, Post, PostRefused, Said, TransportError, TransportRefused
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.testing.patience import eventually

with warnings.catch_warnings():
    # It imports a module for voices that Python has given up.
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("discord")

from tests.support.discord_server import BOT, HALL, TOKEN, DiscordServer

ANN = "10000000001"


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    async with DiscordServer() as server:
        yield server


async def listening(discord: DiscordTransport) -> list[Said]:
    told: list[Said] = []

    async def hear(heard: Heard) -> None:
        if isinstance(heard, Said):
            told.append(heard)

    await discord.open(hear)
    return told


@pytest.fixture
async def discord(server: DiscordServer) -> AsyncIterator[DiscordTransport]:
    discord = DiscordTransport(Secret(TOKEN), api=server.api)
    yield discord
    await discord.close()


@pytest.fixture
async def told(discord: DiscordTransport) -> list[Said]:
    """What is heard from the moment on at which the test begins."""
    return await listening(discord)


async def test_a_mention_in_a_guild_is_answered_in_a_thread_of_its_own(server, discord, told):
    thread = await server.mention(ANN, "count the rows")
    await eventually(lambda: told)
    assert (told[0].thread, told[0].text) == (thread, "count the rows")
    await discord.post(thread, Post("Works"))
    await discord.post(thread, Post("Done"))
    assert [post.text for post in server.shown(thread)] == ["Works", "Done"]
    made = [path for path, _ in server.requests if path.endswith("/threads")]
    assert made == [f"POST /channels/{HALL}/messages/{told[0].message_id}/threads"]


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        (f"do not <@{BOT}> delete it", "do not delete it"),
        (f"<@{BOT}>: ask <@{ANN}>", f"ask <@{ANN}>"),
        (f"<@{ANN}> has asked <@!{BOT}> to go", f"<@{ANN}> has asked to go"),
    ],
)
async def test_only_a_mention_of_us_goes_and_words_stay_apart(server, told, text, heard):
    await server.mention(ANN, text)
    await eventually(lambda: told)
    assert [one.text for one in told] == [heard]


async def test_a_thread_is_called_after_the_first_words_of_its_task(server, discord, told):
    for text in ("count\nthe \u202erows", "long " * 40, f"<@{BOT}>"):
        before = len(told)
        thread = await server.mention(ANN, text)
        await eventually(lambda before=before: len(told) > before)
        await discord.post(thread, Post("Works"))
    # Of one that another process has heard nothing is known.
    again = DiscordTransport(Secret(TOKEN), api=server.api)
    thread = await server.mention(ANN, "go")
    await eventually(lambda: len(told) == 4)
    await discord.close()
    await listening(again)
    await again.post(thread, Post("Works"))
    await again.close()
    names = [str(body["name"]) for path, body in server.requests if path.endswith("/threads")]
    assert "\u202e" not in names[0]
    assert names[0].startswith("count the ")
    assert names[1].startswith("long long")
    assert len(names[1]) <= 60
    assert names[1].endswith("…")
    assert names[2:] == ["kagura", "kagura"]


@pytest.mark.usefixtures("told")
async def test_a_token_that_is_taken_no_more_ends_the_connection_for_good(server, discord):
    ended = asyncio.ensure_future(discord.ended())
    await server.end(4004)
    with pytest.raises(TransportRefused, match="4004"):
        await ended


async def test_a_connection_that_ends_for_another_reason_is_made_again(server, discord, told):
    ended = asyncio.ensure_future(discord.ended())
    first = server._socket
    await server.end(4000)
    await eventually(lambda: server._socket is not first)
    await server.say(ANN, "still there?")
    await eventually(lambda: told)
    assert not ended.done()
    ended.cancel()


async def test_what_a_bot_says_is_left_alone(server, told):
    await server.say(BOT, "go on for ever")
    await server.say(ANN, "hello")
    await eventually(lambda: told)
    assert [one.text for one in told] == ["hello"]


async def test_a_token_that_is_not_taken_is_an_error_without_the_token(server):
    discord = DiscordTransport(Secret("wrong-and-secret"), api=server.api)
    with pytest.raises(TransportError) as caught:
        await listening(discord)
    assert "wrong-and-secret" not in caught.value.message


async def test_a_post_that_is_out_though_nobody_heard_so_stands_there_once(server, discord, told):
    thread = await server.say(ANN, "go")
    await eventually(lambda: told)
    server.lose(1)
    with pytest.raises(TransportError):
        await discord.post(thread, Post("Works", mark="0" * 32))
    found = await discord.post(thread, Post("Works", mark="0" * 32, may_be_out=True))
    await discord.post(thread, Post("Works", mark="1" * 32))
    assert len(server.shown(thread)) == 2
    assert server.shown(thread)[0].post_id == found


async def test_two_first_posts_of_a_thread_make_it_once(server, discord, told):
    thread = await server.mention(ANN, "go")
    await eventually(lambda: told)
    await asyncio.gather(*(discord.post(thread, Post(word)) for word in ("one", "two")))
    assert {post.text for post in server.shown(thread)} == {"one", "two"}


async def test_what_we_may_not_do_is_an_error_that_does_not_pass(server, discord, told):
    thread = await server.say(ANN, "go")
    await eventually(lambda: told)
    server.forbid(1)
    with pytest.raises(PostRefused, match="403"):
        await discord.post(thread, Post("Works"))


async def test_a_post_that_is_not_open_is_an_error():
    with pytest.raises(TransportError, match="not open"):
        await DiscordTransport(Secret(TOKEN)).post("1:", Post("x"))
