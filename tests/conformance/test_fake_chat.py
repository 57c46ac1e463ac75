import pytest

from kagura_kernel.testing.chat import FakeChat
from kagura_kernel.testing.conformance.transport import Chat, TransportConformance


class TestFakeChat(TransportConformance):
    @pytest.fixture
    def chat(self) -> Chat:
        chat = FakeChat()
        return chat, chat
