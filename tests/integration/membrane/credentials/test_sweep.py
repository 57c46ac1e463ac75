from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import LeaseUnavailable
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.provider import MintRequest, Revocation, Verdict
from kagura_kernel.membrane.credentials.revoke import Settler, SweepReport, keep_sweeping
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.credential_fake import LASTING, UNFINDABLE, FakeProvider
from kagura_kernel.testing.credential_service import SCOPE
from tests.support.credential_rigs import github_rig

DEAD, ALIVE = "host:1:dead", "host:2:alive"
BUSY = Revocation(Verdict.RETRY, "HTTP 429", 7.0)


class House:
    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.journal = Journal.open(directory, clock=self.clock)
        self.ledger = LeaseLedger(self.journal)
        self.provider = FakeProvider()

    def begin(self, key: str, owner: str = DEAD, *, dies_in: float = 3600) -> LeaseRow:
        now = self.clock.now()
        row = LeaseRow(
            id=key,
            lease_id=key,
            run_id="run-1",
            session_id="ses-1",
            owner=owner,
            provider="fake",
            scope="read",
            began_at=now,
            expires_at=now + timedelta(seconds=900),
            dies_at=now + timedelta(seconds=dies_in),
            total_seconds=3600,
            spent_seconds=900,
            renewals_left=6,
        )
        self.ledger.begin(row)
        return row

    async def live(self, key: str, owner: str = DEAD) -> str:
        row = self.begin(key, owner)
        minted = await self.provider.mint(MintRequest(key, SCOPE, 900))
        assert self.ledger.complete(key, handle=minted.handle, expires_at=row.expires_at, dies_at=row.dies_at)
        return minted.handle

    def settler(self) -> Settler:
        return Settler(
            self.ledger,
            {"fake": self.provider},
            ALIVE,
            lambda owner: owner != DEAD,
            clock=self.clock,
            chance=lambda: 0.5,
        )

    async def sweep(self) -> SweepReport:
        return await self.settler().sweep()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.journal.close()


def how(report: SweepReport) -> list[tuple[str, str]]:
    return [(entry.id, entry.how) for entry in report.settled]


async def test_what_a_dead_process_held_is_revoked_and_what_a_living_one_holds_is_not(house):
    await house.live("lea-dead")
    handle = await house.live("lea-alive", ALIVE)
    assert how(await house.sweep()) == [("lea-dead", "revoked")]
    assert list(house.provider.books) == [handle]
    assert [row.id for row in house.ledger.open_rows()] == ["lea-alive"]


async def test_a_credential_whose_process_died_before_the_answer_is_found_by_its_mark(house):
    house.begin("lea-1")
    await house.provider.mint(MintRequest("lea-1", SCOPE, 900))
    assert how(await house.sweep()) == [("lea-1", "revoked")]
    assert house.provider.books == {}


async def test_a_mint_that_may_still_be_on_the_way_is_looked_for_again(house):
    house.begin("lea-1")
    first = await house.sweep()
    assert how(first) == [("lea-1", "kept")]
    await house.provider.mint(MintRequest("lea-1", SCOPE, 900))
    await house.clock.advance(first.retry_in or 0)
    assert how(await house.sweep()) == [("lea-1", "revoked")]


async def test_a_mint_that_never_happened_is_closed_after_a_while(house):
    house.begin("lea-1")
    await house.sweep()
    await house.clock.advance(200)
    assert how(await house.sweep()) == [("lea-1", "never minted")]


async def test_what_a_living_process_gives_back_in_a_moment_is_left_to_it_until_then(house):
    await house.live("lea-1", ALIVE)
    await house.live("lea-2", DEAD)
    for key in ("lea-1", "lea-2"):
        house.ledger.owe(key, "it was renewed", due=house.clock.now() + timedelta(seconds=5))
    assert how(await house.sweep()) == [("lea-2", "revoked")]
    await house.clock.advance(5)
    assert how(await house.sweep()) == [("lea-1", "revoked")]


async def test_what_cannot_be_looked_up_is_kept_until_it_is_surely_dead(house):
    house.provider.traits = UNFINDABLE
    house.begin("lea-1", dies_in=3600)
    await house.clock.advance(3600 + 299)
    report = await house.sweep()
    assert how(report) == [("lea-1", "kept")]
    assert "cannot be looked up" in report.kept[0].why
    await house.clock.advance(2)
    assert how(await house.sweep()) == [("lea-1", "expired")]


async def test_what_cannot_be_revoked_is_left_to_expire(house):
    await house.live("lea-1")
    house.provider.traits = LASTING
    assert how(await house.sweep()) == [("lea-1", "left to expire")]


async def test_a_provider_that_says_later_is_asked_later(house):
    await house.live("lea-1")
    house.provider.revocations.extend([BUSY, LeaseUnavailable("fake", "down")])
    first = await house.sweep()
    assert (how(first), first.retry_in) == ([("lea-1", "kept")], 7.0)
    (row,) = house.ledger.open_rows()
    assert (row.state, row.attempts, row.why) == ("owed", 1, "HTTP 429")
    assert row.retry_at == house.clock.now() + timedelta(seconds=7)
    second = await house.sweep()
    assert how(second) == [("lea-1", "kept")]
    assert "down" in second.kept[0].why
    assert how(await house.sweep()) == [("lea-1", "revoked")]


async def test_a_credential_the_provider_does_not_know_is_forgotten(house):
    await house.live("lea-1")
    house.provider.books.clear()
    assert how(await house.sweep()) == [("lea-1", "forgotten")]


async def test_rows_of_a_provider_that_is_not_configured_any_more_are_kept_until_they_are_dead(house):
    await house.live("lea-1")

    async def without() -> SweepReport:
        return await Settler(house.ledger, {}, ALIVE, lambda _: False, clock=house.clock).sweep()

    assert [entry.why for entry in (await without()).kept] == ["its provider is not configured any more"]
    await house.clock.advance(4000)
    assert how(await without()) == [("lea-1", "expired")]


async def test_two_sweeps_at_once_share_the_work(house):
    for number in range(20):
        await house.live(f"lea-{number:02}")
    one, two = await asyncio.gather(house.sweep(), house.sweep())
    assert sorted(how(one) + how(two)) == [(f"lea-{number:02}", "revoked") for number in range(20)]
    assert house.provider.books == {}


async def test_a_claim_of_a_process_that_died_does_not_count(house):
    await house.live("lea-1")
    later = house.clock.now() + timedelta(minutes=2)
    assert house.ledger.claim("lea-1", by=f"{DEAD}#1", until=later)
    assert how(await house.sweep()) == [("lea-1", "revoked")]
    await house.live("lea-2")
    assert house.ledger.claim("lea-2", by=f"{ALIVE}#1", until=later)
    assert how(await house.sweep()) == []
    await house.clock.advance(121)
    assert how(await house.sweep()) == [("lea-2", "revoked")]


async def test_sweeping_goes_on_until_nothing_is_owed(house):
    await house.live("lea-1")
    house.provider.revocations.extend([BUSY, BUSY, BUSY])
    task = asyncio.create_task(keep_sweeping(house.settler))
    while not task.done():
        await house.clock.advance(5)
    assert house.provider.books == {}
    assert house.ledger.open_rows() == []


async def test_a_token_that_only_itself_revokes_is_revoked_from_its_sealed_handle(house):
    with github_rig() as rig:
        provider = rig.provider(timeout=10)
        house.begin("lea-1")
        minted = await provider.mint(MintRequest("lea-1", SCOPE, 900))
        row = house.ledger.row("lea-1")
        assert row is not None
        house.ledger.complete("lea-1", handle=minted.handle, expires_at=row.expires_at, dies_at=row.dies_at)
        assert len(rig.live()) == 1
        other = rig.provider(wrong_key=True, timeout=10)
        kept = await Settler(house.ledger, {"fake": other}, ALIVE, lambda _: False, clock=house.clock).sweep()
        assert [entry.why for entry in kept.kept] == ["it was sealed with another private key"]
        done = await Settler(house.ledger, {"fake": provider}, ALIVE, lambda _: False, clock=house.clock).sweep()
        assert how(done) == [("lea-1", "revoked")]
        assert rig.live() == {}
