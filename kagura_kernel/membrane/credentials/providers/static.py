"""A secret that exists already and is only lent: nothing is minted, and nothing can be revoked.

For services that give nothing better than a long-lived key. A lease of it ends on time; the key itself does not.
"""

from __future__ import annotations

from pydantic import Field

from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits
from kagura_kernel.membrane.credentials.provider_http import Provider, Strict
from kagura_kernel.membrane.credentials.secret import Credential


class StaticScope(Strict):
    """A scope has no settings: it is only a name."""


class StaticSettings(Strict):
    """Settings beside the secret."""

    # Names under which it is lent
    scopes: dict[str, StaticScope] = Field(default_factory=lambda: {"default": StaticScope()})


class StaticProvider(Provider[StaticSettings]):
    """Lends one secret that is kept elsewhere."""

    kind = "static"
    traits = ProviderTraits(
        revocable=False,
        findable=False,
        longest=86400.0,
        note="This key outlives the lease: nobody can revoke it for you. If it leaks, replace it where it was made.",
    )

    async def mint(self, request: MintRequest) -> Minted:
        """The secret as it is now."""
        return Minted(Credential({"token": await self.reader.read(self.secrets["secret"])}), lives=request.seconds)
