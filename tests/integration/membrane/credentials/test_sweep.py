import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import keyring
import keyring.backend
import pytest
from keyring.backends import fail

from kagura_kernel.domain.errors import LeaseUnavailable, SecretUnavailable
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.owner import owner_alive, process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.broker import CredentialBroker
from kagura_kernel.membrane.credentials.lease import Budget, Holder, parse_grant
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits, Revocation, Scope, Verdict
from kagura_kernel.membrane.credentials.registry import parse_registry
from kagura_kernel.membrane.credentials.revoke import CLAIM, Revoked, Settler, SweepReport, keep_sweeping
from kagura_kernel.membrane.credentials.secret import SecretReader
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.credential_fake import LASTING, REVOCABLE, UNFINDABLE, FakeProvider
from kagura_kernel.testing.credential_service import SCOPE
from kagura_kernel.testing.patience import eventually
from tests.support.credential_life import Lives
from tests.support.credential_rigs import cloudflare_rig, github_rig

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


async def test_a_provider_that_fails_as_none_should_is_asked_later_and_keeps_nobody_else_from_the_sweep(house):
    class Broken(FakeProvider):
        async def revoke(self, handle: str) -> Revocation:
            raise ValueError(handle)

    now = house.clock.now()
    await house.live("lea-1")
    house.ledger.begin(replace(house.begin("lea-2", ALIVE), id="lea-3", owner=DEAD, provider="broken"))
    house.ledger.complete("lea-3", handle="s3cret", expires_at=now, dies_at=now)
    settler = house.settler()
    settler.providers = {**settler.providers, "broken": Broken()}
    assert sorted(how(await settler.sweep())) == [("lea-1", "revoked"), ("lea-3", "kept")]
    assert house.ledger.row("lea-3").why == "asking its provider failed (ValueError)"


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


DEAD_OF_REVOKE_NOW, ALIVE_OF_REVOKE_NOW, US = "host:1:dead", "host:2:alive", "host:3:us"


class RevokingHouse:
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
            owner=ALIVE_OF_REVOKE_NOW,
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
            self.ledger,
            {"fake": self.provider},
            US,
            lambda owner: owner != DEAD_OF_REVOKE_NOW,
            clock=self.clock,
            chance=lambda: 0.5,
        )
        return await settler.revoke_now(wanted, "ada")


@pytest.fixture
def house_of_revoke_now(tmp_path: Path) -> Iterator[RevokingHouse]:
    house_of_revoke_now = RevokingHouse(tmp_path)
    yield house_of_revoke_now
    house_of_revoke_now.journal.close()


def with_traits(house_of_revoke_now: RevokingHouse, traits: ProviderTraits) -> None:
    house_of_revoke_now.provider.traits = traits


async def test_the_credential_of_a_run_that_goes_on_is_revoked(house_of_revoke_now):
    await house_of_revoke_now.live("lea-1")
    (one,) = await house_of_revoke_now.revoke()
    assert (one.dead, one.settled.how, house_of_revoke_now.provider.books) == (True, "revoked", {})
    assert not house_of_revoke_now.ledger.is_live("lea-1")
    assert house_of_revoke_now.ledger.open_rows() == []


async def test_what_is_not_wanted_lives_on(house_of_revoke_now):
    await house_of_revoke_now.live("lea-1")
    kept = await house_of_revoke_now.live("lea-2")
    await house_of_revoke_now.revoke(lambda row: row.lease_id == "lea-1")
    assert list(house_of_revoke_now.provider.books) == [kept]
    assert house_of_revoke_now.ledger.is_live("lea-2")


async def test_it_stops_being_live_before_the_provider_is_asked(house_of_revoke_now):
    await house_of_revoke_now.live("lea-1")
    states: list[str] = []

    class Watching(FakeProvider):
        async def revoke(self, handle: str) -> Revocation:
            row = house_of_revoke_now.ledger.row("lea-1")
            states.extend([row.state, row.why] if row else [])
            return await super().revoke(handle)

    watching = Watching()
    watching.books = house_of_revoke_now.provider.books
    house_of_revoke_now.provider = watching
    await house_of_revoke_now.revoke()
    assert states == ["owed", "revoked by ada"]


async def test_what_the_run_mints_meanwhile_is_revoked_as_well(house_of_revoke_now):
    class Renewing(FakeProvider):
        async def revoke(self, handle: str) -> Revocation:
            if len(self.minted) == 1:
                await house_of_revoke_now.live("lea-2", lease_id="lea-1")
            return await super().revoke(handle)

    house_of_revoke_now.provider = Renewing()
    await house_of_revoke_now.live("lea-1")
    found = await house_of_revoke_now.revoke(lambda row: row.lease_id == "lea-1")
    assert [one.row.id for one in found] == ["lea-1", "lea-2"]
    assert house_of_revoke_now.provider.books == {}


async def test_a_mint_that_is_on_its_way_may_not_be_used_when_it_comes(house_of_revoke_now):
    row = house_of_revoke_now.begin("lea-1")
    (one,) = await house_of_revoke_now.revoke()
    assert (one.dead, one.settled.why) == (False, "its mint may still be on the way")
    minted: Minted = await house_of_revoke_now.provider.mint(MintRequest("lea-1", SCOPE, 900))
    assert not house_of_revoke_now.ledger.complete(
        "lea-1", handle=minted.handle, expires_at=row.expires_at, dies_at=row.dies_at
    )
    await house_of_revoke_now.clock.advance(120)
    (again,) = await house_of_revoke_now.revoke()
    assert (again.dead, house_of_revoke_now.provider.books) == (True, {})


async def test_what_the_provider_does_not_end_now_stays_owed(house_of_revoke_now):
    await house_of_revoke_now.live("lea-1")
    house_of_revoke_now.provider.revocations.append(LeaseUnavailable("fake", "no answer"))
    (one,) = await house_of_revoke_now.revoke()
    assert not one.dead
    assert "no answer" in one.settled.why
    (row,) = house_of_revoke_now.ledger.open_rows()
    assert (row.state, row.attempts) == ("owed", 1)


async def test_what_cannot_be_revoked_is_not_called_dead(house_of_revoke_now):
    await house_of_revoke_now.live("lea-1")
    with_traits(house_of_revoke_now, LASTING)
    (one,) = await house_of_revoke_now.revoke()
    assert (one.settled.how, one.dead) == ("left to expire", False)
    assert not house_of_revoke_now.ledger.is_live("lea-1")


async def test_what_the_provider_does_not_know_is_dead(house_of_revoke_now):
    await house_of_revoke_now.live("lea-1")
    house_of_revoke_now.provider.revocations.append(Revocation(Verdict.GONE))
    (one,) = await house_of_revoke_now.revoke()
    assert (one.dead, one.settled.how) == (True, "forgotten")


async def test_a_claim_of_another_process_is_respected_and_one_of_a_dead_process_is_not(house_of_revoke_now):
    await house_of_revoke_now.live("lea-1")
    until = house_of_revoke_now.clock.now() + CLAIM
    assert house_of_revoke_now.ledger.claim("lea-1", by=f"{ALIVE_OF_REVOKE_NOW}#1", until=until)
    (one,) = await house_of_revoke_now.revoke()
    assert (one.dead, one.settled.why) == (False, "another process is revoking it")
    await house_of_revoke_now.clock.advance(CLAIM.total_seconds() + 1)
    assert house_of_revoke_now.ledger.claim(
        "lea-1", by=f"{DEAD_OF_REVOKE_NOW}#1", until=house_of_revoke_now.clock.now() + CLAIM
    )
    (again,) = await house_of_revoke_now.revoke()
    assert (again.dead, house_of_revoke_now.provider.books) == (True, {})


async def test_without_its_provider_a_credential_stays_owed(house_of_revoke_now):
    await house_of_revoke_now.live("lea-1", provider="elsewhere")
    with_traits(house_of_revoke_now, UNFINDABLE)
    (one,) = await house_of_revoke_now.revoke()
    assert not one.dead
    assert "not configured" in one.settled.why
    with_traits(house_of_revoke_now, REVOCABLE)


MOMENTS = 50


def states_of(ledger: LeaseLedger, run_id: str) -> set[str]:
    return {row.state for row in ledger.open_rows() if row.run_id == run_id}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_after_a_kill_at_any_moment_the_next_start_leaves_no_credential_that_no_run_owns(tmp_path):
    chance = random.Random(20)
    journal = Journal.open(tmp_path)
    ledger = LeaseLedger(journal)
    states: set[str] = set()
    with cloudflare_rig() as rig, Lives() as lives:
        provider = rig.provider(timeout=10)
        broker = CredentialBroker(
            ledger,
            {"cloudflare": provider},
            frozenset([parse_grant(f"cloudflare:{SCOPE}")]),
            Holder("run-of-a-living-process", "ses-1", process_owner()),
        )
        mine = await broker.acquire("cloudflare", SCOPE, budget=Budget())
        held = {broker.credential(mine.id).main.reveal()}
        for moment in range(MOMENTS):
            pid = lives.start(home=str(tmp_path), url=rig.service.url, seed=moment)
            await asyncio.to_thread(time.sleep, chance.uniform(0.01, 0.4))
            if moment % 5 == 0:
                # On a machine that is busy a moment may come before the first credential.
                await eventually(lambda run=f"run-{moment}": "live" in states_of(ledger, run))
            lives.kill(pid)
            rig.service.wait_idle()
            states |= states_of(ledger, f"run-{moment}")
            # Two starts at once, as after a crash of the machine.
            one, two = [
                Settler(ledger, {"cloudflare": provider}, process_owner(), owner_alive).sweep() for _ in range(2)
            ]
            reports = await asyncio.gather(one, two)
            assert set(rig.live()) == held, f"moment {moment}: {reports}"
        assert broker.credential(mine.id).main.reveal() in held
        await broker.close()
        assert rig.live() == {}
    assert {row.state for row in ledger.open_rows()} <= {"owed"}  # mints that never arrived wait out their two minutes
    assert {"live", "minting"} <= states, "no kill hit the moments that matter"
    journal.close()


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
