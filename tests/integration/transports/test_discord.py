"""Discord by the real library, against a server on this machine."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator

import pytest

from kagura_kernel.cockpit.transports.discord import DiscordTransport
from kagura_kernel.cockpit.transports.transport import Heard, Post, Said, TransportError
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.testing.patience import eventually

with warnings.catch_warnings():
    # It imports a module for voices that Python has given up.
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("discord")

from kagura_kernel.testing.discord_server import BOT, HALL, TOKEN, DiscordServer

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


async def test_a_mention_in_a_guild_is_answered_in_a_thread_of_its_own(server: DiscordServer):
    discord = DiscordTransport(Secret(TOKEN))
    told = await listening(discord)
    try:
        thread = await server.mention(ANN, "count the rows")
        await eventually(lambda: told)
        assert (told[0].thread, told[0].text) == (thread, "count the rows")
        await discord.post(thread, Post("Works"))
        await discord.post(thread, Post("Done"))
    finally:
        await discord.close()
    assert [post.text for post in server.shown(thread)] == ["Works", "Done"]
    made = [path for path, _ in server.requests if path.endswith("/threads")]
    assert made == [f"POST /channels/{HALL}/messages/{told[0].message_id}/threads"]


async def test_what_a_bot_says_is_left_alone(server: DiscordServer):
    discord = DiscordTransport(Secret(TOKEN))
    told = await listening(discord)
    try:
        await server.say(BOT, "go on for ever")
        await server.say(ANN, "hello")
        await eventually(lambda: told)
    finally:
        await discord.close()
    assert [one.text for one in told] == ["hello"]


@pytest.mark.usefixtures("server")
async def test_a_token_that_is_not_taken_is_an_error_without_the_token():
    discord = DiscordTransport(Secret("wrong-and-secret"))
    with pytest.raises(TransportError) as caught:
        await listening(discord)
    assert "wrong-and-secret" not in caught.value.message


async def test_a_post_that_is_not_open_is_an_error():
    with pytest.raises(TransportError, match="not open"):
        await DiscordTransport(Secret(TOKEN)).post("1:", Post("x"))
