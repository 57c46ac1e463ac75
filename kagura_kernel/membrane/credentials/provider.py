"""The seam behind which credentials are made: what the broker and the sweep know of a provider."""

from __future__ import annotations

from enum import StrEnum
from typing import NewType, Protocol

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.membrane.credentials.secret import Credential

Scope = NewType("Scope", str)
"""What a credential is good for: a name that the provider's configuration explains."""


@dataclass(frozen=True, slots=True)
class ProviderTraits:
    """How a provider's credentials behave."""

    revocable: bool  # Whether they can be ended before their time; otherwise they are left to expire
    findable: bool  # Whether one whose answer was lost can be found again by its mark
    longest: float  # Seconds; no credential lives longer, whatever was asked
    shortest: float = 1.0  # Seconds; a credential cannot be made to live less. The lease of it may still end earlier.
    note: str = ""  # What a person should know about giving back, in a sentence; empty when it is as one expects


@dataclass(frozen=True, slots=True)
class MintRequest:
    """One credential to be made."""

    mark: str  # `lea-…`, unique; a provider that keeps names or descriptions writes it there
    scope: Scope  # What for; one of the provider's own scopes
    seconds: float  # How long it should live


@dataclass(frozen=True, slots=True)
class Minted:
    """A credential that lives now."""

    credential: Credential = field(repr=False)  # The secret parts
    # Seconds from now until it dies by itself, measured by the provider's own clock, so that a clock that is wrong here
    # does no harm
    lives: float
    # What revokes it: an id, or a secret sealed so that only the provider's own key opens it; never a plain secret.
    # Empty when nothing can be revoked.
    handle: str = ""


class Verdict(StrEnum):
    """How an attempt to revoke ended."""

    REVOKED = "revoked"
    GONE = "gone"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Revocation:
    """The answer to an attempt to revoke."""

    verdict: Verdict  # `revoked`, `gone` (there is no such credential any more: forget it) or `retry` (keep it)
    why: str = ""  # For `retry`: what happened
    retry_after: float | None = None  # Seconds that the provider wants to be left alone; None when it did not say


class CredentialProvider(Protocol):
    """One source of credentials. It may be used from any event loop and holds nothing open between calls.

    Cancelling a call leaves no connection behind; whether a credential was made by then is unknown.
    """

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def kind(self) -> str:
        """What sort of provider it is."""

    @property
    def traits(self) -> ProviderTraits:
        """How its credentials behave."""

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes it can mint for."""

    async def mint(self, request: MintRequest) -> Minted:
        """Make one credential.

        Raises:
            LeaseRefused: it said no; nothing was made.
            LeaseUnavailable: it could not be asked or gave no good answer; `uncertain` when something may exist.
            SecretUnavailable: its own key cannot be read.
        """

    async def revoke(self, handle: str) -> Revocation:
        """End one credential. May be called twice.

        Raises:
            LeaseUnavailable: it could not be asked; keep the handle.
            SecretUnavailable: its own key cannot be read; keep the handle.
        """

    async def find(self, mark: str) -> str:
        """The handle of the credential with this mark; empty when there is none, or when this cannot be known.

        Raises:
            LeaseUnavailable: it could not be asked.
            LeaseRefused: it may not be asked.
            SecretUnavailable: its own key cannot be read.
        """
