"""What Google answers when it says no, and addresses that stand for no host."""

import pytest
from google.auth.exceptions import TransportError

from kagura_kernel.membrane.credentials.providers.gcp import GcpProvider, GcpSettings, _Transport
from kagura_kernel.membrane.credentials.secret import SecretReader, SecretReference

SETTINGS = GcpSettings.model_validate({"scopes": {"a": {"service_account": "a@b.example", "oauth_scopes": ["x"]}}})


@pytest.mark.parametrize(
    ("said", "seconds"), [("7", 7.0), ("", None), ("²", None), ("9" * 400, None), ("-1", None), ("soon", None)]
)
def test_how_long_it_wants_to_be_left_alone_is_a_number_or_not_known(said, seconds):
    provider = GcpProvider("google", SETTINGS, {"key": SecretReference("key", "env", "KEY")}, SecretReader({}))
    assert provider._translated(429, {"retry-after": said}).retry_after == seconds


def test_a_host_that_stands_for_no_name_cannot_be_reached():
    with _Transport(1.0) as transport, pytest.raises(TransportError):
        transport("https://xn--a/token")
