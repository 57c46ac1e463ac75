from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import LeaseUnavailable
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits, Revocation, Verdict
from kagura_kernel.membrane.credentials.revoke import CLAIM, Revoked, Settler
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.credential_fake import LASTING, REVOCABLE, UNFINDABLE, FakeProvider
from kagura_kernel.testing.credential_service import SCOPE

DEAD, ALIVE, US = "host:1:dead", "host:2:alive", "host:3:us"


class House:
    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.journal = Journal.open(directory, clock=self.clock)
        self.ledger = LeaseLedger(self.journal)
        self.provider = FakeProvider()

    def begin(self, key: str, **changes: object) -> LeaseRow:
        now = self.clock.now()
        row = LeaseRow(
            id=key,
            lease_id=key,
            run_id="run-1",
            session_id="ses-1",
            owner=ALIVE,
            provider="fake",
            scope="read",
            began_at=now,
            expires_at=now + timedelta(seconds=900),
            dies_at=now + timedelta(seconds=3600),
            total_seconds=3600,
            spent_seconds=900,
            renewals_left=6,
        )
        row = replace(row, **changes)  # type: ignore[arg-type]
        self.ledger.begin(row)
        return row

    async def live(self, key: str, **changes: object) -> str:
        row = self.begin(key, **changes)
        minted = await self.provider.mint(MintRequest(key, SCOPE, 900))
        assert self.ledger.complete(key, handle=minted.handle, expires_at=row.expires_at, dies_at=row.dies_at)
        return minted.handle

    async def revoke(self, wanted: Callable[[LeaseRow], bool] = lambda _: True) -> list[Revoked]:
        settler = Settler(
            self.ledger, {"fake": self.provider}, US, lambda owner: owner != DEAD, clock=self.clock, chance=lambda: 0.5
        )
        return await settler.revoke_now(wanted, "ada")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.journal.close()


def with_traits(house: House, traits: ProviderTraits) -> None:
    house.provider.traits = traits


async def test_the_credential_of_a_run_that_goes_on_is_revoked(house):
    await house.live("lea-1")
    (one,) = await house.revoke()
    assert (one.dead, one.settled.how, house.provider.books) == (True, "revoked", {})
    assert not house.ledger.is_live("lea-1")
    assert house.ledger.open_rows() == []


async def test_what_is_not_wanted_lives_on(house):
    await house.live("lea-1")
    kept = await house.live("lea-2")
    await house.revoke(lambda row: row.lease_id == "lea-1")
    assert list(house.provider.books) == [kept]
    assert house.ledger.is_live("lea-2")


async def test_it_stops_being_live_before_the_provider_is_asked(house):
    await house.live("lea-1")
    states: list[str] = []

    class Watching(FakeProvider):
        async def revoke(self, handle: str) -> Revocation:
            row = house.ledger.row("lea-1")
            states.extend([row.state, row.why] if row else [])
            return await super().revoke(handle)

    watching = Watching()
    watching.books = house.provider.books
    house.provider = watching
    await house.revoke()
    assert states == ["owed", "revoked by ada"]


async def test_what_the_run_mints_meanwhile_is_revoked_as_well(house):
    class Renewing(FakeProvider):
        async def revoke(self, handle: str) -> Revocation:
            if len(self.minted) == 1:
                await house.live("lea-2", lease_id="lea-1")
            return await super().revoke(handle)

    house.provider = Renewing()
    await house.live("lea-1")
    found = await house.revoke(lambda row: row.lease_id == "lea-1")
    assert [one.row.id for one in found] == ["lea-1", "lea-2"]
    assert house.provider.books == {}


async def test_a_mint_that_is_on_its_way_may_not_be_used_when_it_comes(house):
    row = house.begin("lea-1")
    (one,) = await house.revoke()
    assert (one.dead, one.settled.why) == (False, "its mint may still be on the way")
    minted: Minted = await house.provider.mint(MintRequest("lea-1", SCOPE, 900))
    assert not house.ledger.complete("lea-1", handle=minted.handle, expires_at=row.expires_at, dies_at=row.dies_at)
    await house.clock.advance(120)
    (again,) = await house.revoke()
    assert (again.dead, house.provider.books) == (True, {})


async def test_what_the_provider_does_not_end_now_stays_owed(house):
    await house.live("lea-1")
    house.provider.revocations.append(LeaseUnavailable("fake", "no answer"))
    (one,) = await house.revoke()
    assert not one.dead
    assert "no answer" in one.settled.why
    (row,) = house.ledger.open_rows()
    assert (row.state, row.attempts) == ("owed", 1)


async def test_what_cannot_be_revoked_is_not_called_dead(house):
    await house.live("lea-1")
    with_traits(house, LASTING)
    (one,) = await house.revoke()
    assert (one.settled.how, one.dead) == ("left to expire", False)
    assert not house.ledger.is_live("lea-1")


async def test_what_the_provider_does_not_know_is_dead(house):
    await house.live("lea-1")
    house.provider.revocations.append(Revocation(Verdict.GONE))
    (one,) = await house.revoke()
    assert (one.dead, one.settled.how) == (True, "forgotten")


async def test_a_claim_of_another_process_is_respected_and_one_of_a_dead_process_is_not(house):
    await house.live("lea-1")
    until = house.clock.now() + CLAIM
    assert house.ledger.claim("lea-1", by=f"{ALIVE}#1", until=until)
    (one,) = await house.revoke()
    assert (one.dead, one.settled.why) == (False, "another process is revoking it")
    await house.clock.advance(CLAIM.total_seconds() + 1)
    assert house.ledger.claim("lea-1", by=f"{DEAD}#1", until=house.clock.now() + CLAIM)
    (again,) = await house.revoke()
    assert (again.dead, house.provider.books) == (True, {})


async def test_without_its_provider_a_credential_stays_owed(house):
    await house.live("lea-1", provider="elsewhere")
    with_traits(house, UNFINDABLE)
    (one,) = await house.revoke()
    assert not one.dead
    assert "not configured" in one.settled.why
    with_traits(house, REVOCABLE)
