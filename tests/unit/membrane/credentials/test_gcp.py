"""What Google answers when it says no, and addresses that stand for no host."""

import gzip
import json

import httpx
import pytest
from google.auth.exceptions import TransportError

from kagura_kernel.domain.errors import LeaseUnavailable
from kagura_kernel.membrane.credentials.provider import MintRequest
from kagura_kernel.membrane.credentials.providers.gcp import GcpProvider, GcpSettings, _Response, _Transport
from kagura_kernel.membrane.credentials.secret import SecretReader, SecretReference
from tests.support.credential_rigs import service_account

SETTINGS = GcpSettings.model_validate({"scopes": {"a": {"service_account": "a@b.example", "oauth_scopes": ["x"]}}})


def provider(key: str) -> GcpProvider:
    """One with this key."""
    return GcpProvider("google", SETTINGS, {"key": SecretReference("key", "env", "KEY")}, SecretReader({"KEY": key}))


@pytest.mark.parametrize(
    ("said", "seconds"), [("7", 7.0), ("", None), ("²", None), ("9" * 400, None), ("-1", None), ("soon", None)]
)
def test_how_long_it_wants_to_be_left_alone_is_a_number_or_not_known(said, seconds):
    assert provider("")._translated(429, {"retry-after": said}).retry_after == seconds


def test_a_host_that_stands_for_no_name_cannot_be_reached():
    with _Transport(1.0) as transport, pytest.raises(TransportError):
        transport("https://xn--a/token")


def test_an_answer_that_was_packed_unasked_stays_packed(monkeypatch):
    packed = gzip.compress(b"x" * 100_000)
    answer = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(packed))
    with _Transport(1.0) as transport, httpx.Client(transport=httpx.MockTransport(lambda _: answer)) as client:
        monkeypatch.setattr(transport, "_client", client)
        assert transport("https://oauth2.example/token").data == packed


@pytest.mark.parametrize("answer", [b"[" * 100_000, b'{"accessToken": "x", "expireTime": ["soon"]}'])
async def test_an_answer_that_makes_no_sense_is_told(monkeypatch, answer):
    def ask(transport: _Transport, url: str, *_: object, **__: object) -> _Response:
        first = json.dumps({"access_token": "x", "expires_in": 60}).encode()
        transport.last = _Response(200, {}, answer if url.endswith("generateAccessToken") else first)
        return transport.last

    monkeypatch.setattr(_Transport, "__call__", ask)
    with pytest.raises(LeaseUnavailable, match="makes no sense"):
        await provider(service_account("https://oauth2.example/token")).mint(MintRequest("lea-1", "a", 60.0))
