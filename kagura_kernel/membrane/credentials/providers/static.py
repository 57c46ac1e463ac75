"""A secret that exists already and is only lent: nothing is minted, and nothing can be revoked.

For services that give nothing better than a long-lived key. A lease of it ends on time; the key itself does not.
"""

from __future__ import annotations

from pydantic import Field

from kagura_kernel.membrane.credentials.injection.settings import Injection
from kagura_kernel.membrane.credentials.provider import LeftToExpire, Minted, MintRequest, ProviderTraits
from kagura_kernel.membrane.credentials.provider_http import Strict
from kagura_kernel.membrane.credentials.secret import Credential, SecretReader, SecretReference

SECRETS = ("secret",)


class StaticScope(Strict):
    """A scope has no settings: it is only a name."""


class StaticSettings(Strict):
    """Settings beside the secret."""

    # Names under which it is lent
    scopes: dict[str, StaticScope] = Field(default_factory=lambda: {"default": StaticScope()})


class StaticProvider(LeftToExpire):
    """Lends one secret that is kept elsewhere."""

    kind = "static"
    traits = ProviderTraits(
        revocable=False,
        findable=False,
        longest=86400.0,
        note="This key outlives the lease: nobody can revoke it for you. If it leaks, replace it where it was made.",
    )

    def __init__(self, name: str, secret: SecretReference, reader: SecretReader, scopes: frozenset[str]) -> None:
        self.name = name
        self.scopes = scopes
        self._secret = secret
        self._reader = reader

    async def mint(self, request: MintRequest) -> Minted:
        """The secret as it is now."""
        return Minted(Credential({"token": await self._reader.read(self._secret)}), lives=request.seconds)


def injections(settings: StaticSettings) -> tuple[Injection, ...]:
    """Nothing is known of the secret, so the configuration has to say how it is used."""
    del settings
    return ()


def make(
    name: str, settings: StaticSettings, secrets: dict[str, SecretReference], reader: SecretReader
) -> StaticProvider:
    """The provider that the registry describes."""
    return StaticProvider(name, secrets["secret"], reader, frozenset(settings.scopes))
