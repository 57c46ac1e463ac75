"""The seam behind which credentials are made: what the broker and the sweep know of a provider."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from kagura_kernel.membrane.credentials.grants import Scope
from kagura_kernel.membrane.credentials.secret import Credential


@dataclass(frozen=True, slots=True)
class ProviderTraits:
    """How a provider's credentials behave.

    Attributes:
        revocable: Whether they can be ended before their time; otherwise they are left to expire.
        findable: Whether one whose answer was lost can be found again by its mark.
        shortest: Seconds; a credential cannot be made to live less. The lease of it may still end earlier.
        longest: Seconds; no credential lives longer, whatever was asked.
        note: What a person should know about giving back, in a sentence; empty when it is as one expects.
    """

    revocable: bool
    findable: bool
    longest: float
    shortest: float = 1.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class MintRequest:
    """One credential to be made.

    Attributes:
        mark: `lea-…`, unique; a provider that keeps names or descriptions writes it there.
        scope: What for; one of the provider's own scopes.
        seconds: How long it should live.
    """

    mark: str
    scope: Scope
    seconds: float


@dataclass(frozen=True, slots=True)
class Minted:
    """A credential that lives now.

    Attributes:
        credential: The secret parts.
        lives: Seconds from now until it dies by itself, measured by the provider's own clock, so that a clock that is
            wrong here does no harm.
        handle: What revokes it: an id, or a secret sealed so that only the provider's own key opens it; never a
            plain secret. Empty when nothing can be revoked.
    """

    credential: Credential = field(repr=False)
    lives: float
    handle: str = ""


class Verdict(StrEnum):
    """How an attempt to revoke ended."""

    REVOKED = "revoked"
    GONE = "gone"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Revocation:
    """The answer to an attempt to revoke.

    Attributes:
        verdict: `revoked`, `gone` (there is no such credential any more: forget it) or `retry` (keep it).
        why: For `retry`: what happened.
        retry_after: Seconds that the provider wants to be left alone; None when it did not say.
    """

    verdict: Verdict
    why: str = ""
    retry_after: float | None = None


class CredentialProvider(Protocol):
    """One source of credentials. It may be used from any event loop and holds nothing open between calls.

    Cancelling a call leaves no connection behind; whether a credential was made by then is unknown.
    """

    @property
    def name(self) -> str:
        """Its name in the registry."""
        ...

    @property
    def kind(self) -> str:
        """What sort of provider it is."""
        ...

    @property
    def traits(self) -> ProviderTraits:
        """How its credentials behave."""
        ...

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes it can mint for."""
        ...

    async def mint(self, request: MintRequest) -> Minted:
        """Make one credential.

        Raises:
            LeaseRefused: it said no; nothing was made.
            LeaseUnavailable: it could not be asked or gave no good answer; `uncertain` when something may exist.
            SecretUnavailable: its own key cannot be read.
        """
        ...

    async def revoke(self, handle: str) -> Revocation:
        """End one credential. May be called twice.

        Raises:
            LeaseUnavailable: it could not be asked; keep the handle.
            SecretUnavailable: its own key cannot be read; keep the handle.
        """
        ...

    async def find(self, mark: str) -> str:
        """The handle of the credential with this mark; empty when there is none, or when this cannot be known.

        Raises:
            LeaseUnavailable: it could not be asked.
            LeaseRefused: it may not be asked.
            SecretUnavailable: its own key cannot be read.
        """
        ...
