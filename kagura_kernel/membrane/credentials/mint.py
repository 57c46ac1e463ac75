"""The credentials of one broker at their providers, by the book: minted, and given back.

The intent is written down, then the provider is asked, then the result is written down: whatever happens in between,
the ledger has a row from which the credential can be found and revoked. What is given back is tried at once, or in the
background with pauses that grow, until the provider knows of it; what is left is the next sweep's.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

from kagura_kernel.domain.errors import (
    CredentialError,
    JournalError,
    LeaseEnded,
    LeaseRefused,
    LeaseUnavailable,
    SecretUnavailable,
)
from kagura_kernel.domain.identity import new_lease_id
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.leases import LeaseRow
from kagura_kernel.membrane.credentials.lease import Holder, Lease
from kagura_kernel.membrane.credentials.provider import CredentialProvider, Minted, MintRequest
from kagura_kernel.membrane.credentials.revoke import CLAIM, UNSURE, Settled, Settler, bounded, finish

_AGES = 10 * 365 * 86400.0


_BROKEN_OFF = "its revocation was broken off before its provider answered"


@dataclass(eq=False, repr=False)
class Book:
    """What one broker was given, and owes. What it cannot settle stays in the ledger for the next sweep."""

    settler: Settler

    def __post_init__(self) -> None:
        self.ledger, self.clock = self.settler.ledger, self.settler.clock
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._handles: dict[str, tuple[str, str]] = {}
        self._closing = False

    async def mint(self, provider: CredentialProvider, lease: Lease, holder: Holder) -> Lease:
        """Mint once for a lease, as `Lease.acquire` or `Lease.renew` gives it: the lease with a live credential.

        It should not be cancelled half-way; whoever may be cancelled runs it as a task and shields that.

        Raises:
            LeaseRefused: the provider said no.
            LeaseEnded: the credential that it replaces was revoked by somebody.
            LeaseUnavailable: the provider could not be asked; what it may have made is owed.
            SecretUnavailable: the provider's key cannot be read.
            JournalError: the ledger does not take the row; what was made is owed, or was revoked on the spot.
        """
        mark = new_lease_id()
        began = self.clock.now()
        traits = provider.traits
        asked = min(max(lease.lifetime, traits.shortest), traits.longest)
        begun = self.ledger.begin(
            LeaseRow(
                id=mark,
                lease_id=lease.id or mark,
                run_id=holder.run_id,
                session_id=holder.session_id,
                owner=holder.owner,
                provider=provider.name,
                scope=lease.scope,
                began_at=began,
                expires_at=began + timedelta(seconds=lease.lifetime),
                dies_at=began + timedelta(seconds=traits.longest if traits.revocable else asked),
                total_seconds=lease.budget.total_seconds,
                spent_seconds=lease.budget.spent_seconds,
                renewals_left=lease.budget.renewals_left,
            ),
            after=lease.row_id,
            # Where nothing can be left behind, a row that a power cut takes is no loss.
            flush=traits.revocable,
        )
        if not begun:
            raise LeaseEnded(provider.name, lease.scope, "it was revoked")
        minted = await self._asked(provider, MintRequest(mark, lease.scope, asked))
        live = lease.minted(mark, minted, self.clock.now())
        await self._complete(provider, live, minted)
        # For the case that the ledger cannot be read any more.
        self._handles[mark] = provider.name, minted.handle
        return live

    def note(self, row_id: str, why: str) -> None:
        """Write down that it is owed, if that can be done; `now` or `later` tell when it cannot."""
        with suppress(JournalError):
            self.ledger.owe(row_id, why)

    async def now(self, row_id: str, why: str) -> Settled:
        """Try once; if that is not enough, go on in the background. Whoever is cancelled meanwhile calls `later`.

        Raises:
            JournalError: it could not be written down; the provider was told all the same.
        """
        try:
            self.ledger.owe(row_id, why)
            settled = await self._once(row_id)
        except JournalError:
            await self._off_the_book(row_id)
            raise
        if not settled.done:
            self._start(row_id, settled.retry_in)
        return settled

    def later(self, row_id: str, why: str, *, pause: float = 0.0) -> None:
        """Write down that it is owed, and revoke it in the background, after this many seconds.

        Raises:
            JournalError: it could not be written down; it is tried all the same.
        """
        due = self.clock.now() + timedelta(seconds=pause) if pause else None
        try:
            self.ledger.owe(row_id, why, due=due)
        finally:
            self._start(row_id, pause)

    def hurry(self, row_id: str) -> None:
        """Wait no longer with one that is to be revoked in the background."""
        for task in [task for task, waiting in self._tasks.items() if waiting == row_id and not task.done()]:
            task.cancel()
            self._start(row_id, 0.0)

    async def close(self, seconds: float) -> None:
        """End all tasks: each gets one last attempt, and all of them together so many seconds."""
        self._closing = True
        tasks = dict(self._tasks)
        waiting = {row_id for task, row_id in tasks.items() if not task.done()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        last = [asyncio.create_task(self._once(row_id), name=f"revoke {row_id}") for row_id in waiting]
        await finish(last, seconds)
        await asyncio.gather(*last, return_exceptions=True)

    async def _asked(self, provider: CredentialProvider, request: MintRequest) -> Minted:
        try:
            minted = await bounded(provider.name, provider.mint(request))
        except (LeaseRefused, SecretUnavailable):
            self.ledger.close(request.mark, "never minted")
            raise
        except LeaseUnavailable as error:
            if error.uncertain:
                self.later(request.mark, f"{UNSURE}: {error.why}")
            else:
                self.ledger.close(request.mark, "never minted")
            raise
        except BaseException:
            # Whatever it is: a credential may have been made.
            self.later(request.mark, f"{UNSURE}: its mint was broken off")
            raise
        if minted.lives <= 0:
            self.later(request.mark, "it was dead when it came")
            raise LeaseUnavailable(provider.name, "what it gave has expired already")
        return minted

    async def _complete(self, provider: CredentialProvider, lease: Lease, minted: Minted) -> None:
        dies_at = lease.issued_at + timedelta(seconds=min(minted.lives, _AGES))
        try:
            if self.ledger.complete(lease.row_id, handle=minted.handle, expires_at=lease.expires_at, dies_at=dies_at):
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

    def _start(self, row_id: str, pause: float) -> None:
        if self._closing:
            return
        task = asyncio.create_task(self._again(row_id, pause), name=f"revoke {row_id}")
        self._tasks[task] = row_id
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _again(self, row_id: str, pause: float) -> None:
        while True:
            if pause > 0:
                await self.clock.sleep(pause)
            try:
                settled = await self._once(row_id)
            except JournalError:
                await self._off_the_book(row_id)
                return  # whatever the row says now, the next sweep reads it
            if settled.done:
                return
            pause = max(1.0, settled.retry_in)

    async def _once(self, row_id: str) -> Settled:
        row = self.ledger.row(row_id)
        if row is None or row.state == "gone":
            return Settled(row_id, "", "", "forgotten")
        if not self.settler.claims(row):
            return Settled(row_id, row.provider, row.scope, "kept", "another process settles it", CLAIM.total_seconds())
        self.ledger.owe(row_id, "it was given back")
        try:
            settled = await self.settler.settle(row)
        except asyncio.CancelledError:
            # Not ours any more: the next sweep need not wait for the claim to lapse.
            with suppress(JournalError):
                self.ledger.postpone(
                    row_id, until=self.clock.now(), why=_BROKEN_OFF if row.handle else f"{UNSURE}: {_BROKEN_OFF}"
                )
            raise
        if settled.done:
            self._handles.pop(row_id, None)
        return settled

    async def _off_the_book(self, row_id: str) -> None:
        """Tell the provider although it cannot be written down: a journal that fails must not keep a secret alive."""
        name, handle = self._handles.get(row_id, ("", ""))
        provider = self.settler.providers.get(name)
        if provider is not None and provider.traits.revocable:
            with suppress(CredentialError):
                await bounded(provider.name, provider.revoke(handle))
