import warnings
from collections.abc import AsyncIterator

import pytest

from kagura_kernel.cockpit.transports.discord import DiscordTransport
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.testing.conformance.transport import Chat, TransportConformance

with warnings.catch_warnings():
    # It imports a module for voices that Python has given up.
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("discord")


class TestDiscord(TransportConformance):
    @pytest.fixture
    async def chat(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chat]:
        from tests.support.discord_server import TOKEN, DiscordServer

        # The library waits so long after the last guild; here there is one, and it is told of at once.
        monkeypatch.setattr("kagura_kernel.cockpit.transports.discord.GUILD_SECONDS", 0.02)
        async with DiscordServer() as server:
            yield DiscordTransport(Secret(TOKEN), api=server.api), server
