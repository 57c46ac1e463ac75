"""Minting by the book: the intent is written down, then the provider is asked, then the result is written down.

Whatever happens in between, the ledger has a row from which the credential can be found and revoked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import (
    CredentialError,
    JournalError,
    LeaseEnded,
    LeaseRefused,
    LeaseUnavailable,
    SecretUnavailable,
)
from kagura_kernel.domain.identity import new_lease_id
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.membrane.credentials.lease import Budget, Grant, Holder
from kagura_kernel.membrane.credentials.provider import CredentialProvider, Minted, MintRequest
from kagura_kernel.membrane.credentials.secret import Credential
from kagura_kernel.membrane.credentials.settle import UNSURE, bounded

_AGES = 10 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Order:
    """One credential to be minted."""

    grant: Grant  # Under which grant
    lease_id: str  # For which lease; empty for a new one, which then takes the id of this credential
    seconds: float  # How long the lease may use it
    budget: Budget  # What will be left when it is minted; already spent for it
    # The row of the credential that it replaces; empty for a first one, and after the lease was on hold
    after: str = ""


@dataclass(frozen=True, slots=True)
class Issue:
    """A credential that was minted and written down."""

    row_id: str  # Its row in the ledger
    lease_id: str
    credential: Credential = field(repr=False)  # The secret
    issued_at: datetime  # UTC
    expires_at: datetime  # When the lease of it ends: as ordered, or earlier when the provider gave less
    lasting: float  # Seconds between these two
    budget: Budget  # What is left: as ordered, with time back where the provider gave less
    handle: str = field(default="", repr=False)  # What revokes it


async def mint(
    provider: CredentialProvider,
    order: Order,
    holder: Holder,
    ledger: LeaseLedger,
    clock: Clock,
    *,
    owe: Callable[[str, str], None],
) -> Issue:
    """Mint once.

    It should not be cancelled half-way; whoever may be cancelled runs it as a task and shields that.

    Args:
        provider: Who mints.
        order: What.
        holder: For whom.
        ledger: Where it is written down.
        clock: For when it ends.
        owe: Told of a row whose credential may exist and must not, with the reason; writes that down as owed.

    Raises:
        LeaseRefused: the provider said no.
        LeaseEnded: the credential that it replaces was revoked by somebody.
        LeaseUnavailable: the provider could not be asked; what it may have made is owed.
        SecretUnavailable: the provider's key cannot be read.
        JournalError: the ledger does not take the row; what was made is owed, or was revoked on the spot.
    """
    mark = new_lease_id()
    began = clock.now()
    traits = provider.traits
    asked = min(max(order.seconds, traits.shortest), traits.longest)
    begun = ledger.begin(
        LeaseRow(
            id=mark,
            lease_id=order.lease_id or mark,
            run_id=holder.run_id,
            session_id=holder.session_id,
            owner=holder.owner,
            provider=provider.name,
            scope=order.grant.scope,
            began_at=began,
            expires_at=began + timedelta(seconds=order.seconds),
            dies_at=began + timedelta(seconds=traits.longest if traits.revocable else asked),
            total_seconds=order.budget.total_seconds,
            spent_seconds=order.budget.spent_seconds,
            renewals_left=order.budget.renewals_left,
        ),
        after=order.after,
        # Where nothing can be left behind, a row that a power cut takes is no loss.
        flush=traits.revocable,
    )
    if not begun:
        raise LeaseEnded(provider.name, order.grant.scope, "it was revoked")
    minted = await _ask(provider, MintRequest(mark, order.grant.scope, asked), ledger, owe)
    issued = clock.now()
    lasting = min(order.seconds, minted.lives)
    expires = issued + timedelta(seconds=lasting)
    await _complete(provider, mark, minted, ledger, expires, issued + timedelta(seconds=min(minted.lives, _AGES)))
    budget = order.budget.refund(order.seconds - lasting)
    return Issue(mark, order.lease_id or mark, minted.credential, issued, expires, lasting, budget, minted.handle)


async def _ask(
    provider: CredentialProvider, request: MintRequest, ledger: LeaseLedger, owe: Callable[[str, str], None]
) -> Minted:
    try:
        minted = await bounded(provider.name, provider.mint(request))
    except (LeaseRefused, SecretUnavailable):
        ledger.close(request.mark, "never minted")
        raise
    except LeaseUnavailable as error:
        if error.uncertain:
            owe(request.mark, f"{UNSURE}: {error.why}")
        else:
            ledger.close(request.mark, "never minted")
        raise
    except BaseException:
        # Whatever it is: a credential may have been made.
        owe(request.mark, f"{UNSURE}: its mint was broken off")
        raise
    if minted.lives <= 0:
        owe(request.mark, "it was dead when it came")
        raise LeaseUnavailable(provider.name, "what it gave has expired already")
    return minted


async def _complete(
    provider: CredentialProvider,
    mark: str,
    minted: Minted,
    ledger: LeaseLedger,
    expires_at: datetime,
    dies_at: datetime,
) -> None:
    try:
        if ledger.complete(mark, handle=minted.handle, expires_at=expires_at, dies_at=dies_at):
            return
        trouble: CredentialError | JournalError = LeaseUnavailable(
            provider.name, "its credential was swept away while it was minted"
        )
    except JournalError as error:
        trouble = error
    # What is not in the book must not live. Should this fail too, the row of the intent is left to the sweep.
    if provider.traits.revocable:
        with suppress(CredentialError):
            await bounded(provider.name, provider.revoke(minted.handle))
    raise trouble
