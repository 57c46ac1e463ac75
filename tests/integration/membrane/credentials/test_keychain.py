"""Secrets from a keychain: a real keyring back-end that keeps its entries in a file."""

from __future__ import annotations

from collections.abc import Iterator

import keyring
import keyring.backend
import pytest
from keyring.backends import fail

from kagura_kernel.domain.errors import SecretUnavailable
from kagura_kernel.membrane.credentials.provider import MintRequest, Scope
from kagura_kernel.membrane.credentials.registry import parse_registry
from kagura_kernel.membrane.credentials.secret import SecretReader

TOML = '[providers.npm]\nkind = "static"\nsecret_keyring = "kagura/npm/me"'
REQUEST = MintRequest("lea-1", Scope("default"), 900)


@pytest.fixture
def chain(private_home: object) -> Iterator[keyring.backend.KeyringBackend]:
    del private_home  # the file lies below it
    alt = pytest.importorskip("keyrings.alt.file")
    before = keyring.get_keyring()
    chain = alt.PlaintextKeyring()
    keyring.set_keyring(chain)
    yield chain
    keyring.set_keyring(before)


async def test_a_secret_of_the_keychain_is_lent(chain):
    chain.set_password("kagura/npm", "me", "from-the-keychain")
    provider = parse_registry(TOML, SecretReader({})).providers["npm"]
    assert (await provider.mint(REQUEST)).credential.main.reveal() == "from-the-keychain"
    chain.delete_password("kagura/npm", "me")
    with pytest.raises(SecretUnavailable, match="no such entry"):
        await provider.mint(REQUEST)


@pytest.mark.usefixtures("chain")
async def test_without_a_keychain_the_setting_is_named():
    keyring.set_keyring(fail.Keyring())
    provider = parse_registry(TOML, SecretReader({})).providers["npm"]
    with pytest.raises(SecretUnavailable, match=r"providers\.npm\.secret_keyring.*no keychain"):
        await provider.mint(REQUEST)


@pytest.mark.usefixtures("chain")
async def test_a_keychain_that_breaks_says_so_and_nothing_else(monkeypatch):
    def broken(service: str, username: str) -> str:
        raise RuntimeError(f"secret of {service} {username}")

    monkeypatch.setattr(keyring, "get_password", broken)
    provider = parse_registry(TOML, SecretReader({})).providers["npm"]
    with pytest.raises(SecretUnavailable, match=r"does not work \(RuntimeError\)") as caught:
        await provider.mint(REQUEST)
    assert "secret of kagura" not in str(caught.value)
