from collections.abc import AsyncIterator

import pytest

from kagura_kernel.cockpit.transports.slack import SlackTokens, SlackTransport
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.testing.conformance.transport import Chat, TransportConformance

pytest.importorskip("slack_bolt")


class TestSlack(TransportConformance):
    @pytest.fixture
    async def chat(self) -> AsyncIterator[Chat]:
        from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

        async with SlackServer() as server:
            tokens = SlackTokens(Secret(BOT_TOKEN), Secret(APP_TOKEN))
            yield SlackTransport(tokens, api=server.api, files=server.files), server
