import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.errors import (
    ApprovalDenied,
    ApprovalRequired,
    GrantMissing,
    JournalUnwritable,
    LeaseEnded,
    LeaseRefused,
    LeaseUnavailable,
    UnknownName,
)
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials import broker as brokers, provider as seam, revoke as revoking
from kagura_kernel.membrane.credentials.broker import CredentialBroker
from kagura_kernel.membrane.credentials.lease import Budget, Holder, Lease, LeaseTerms, parse_grant
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.credential_fake import LASTING, UNFINDABLE, FakeProvider

HOUR = Budget(3600)
RETRY = seam.Revocation(seam.Verdict.RETRY, "HTTP 500")


class House:
    """A ledger, a fake provider, a clock that stands still, and brokers that are closed at the end."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.journal = Journal.open(directory, clock=self.clock)
        self.ledger = LeaseLedger(self.journal)
        self.provider = FakeProvider()
        self.changes: list[str] = []
        self.brokers: list[CredentialBroker] = []

    def broker(self, *grants: str, **more: Any) -> CredentialBroker:
        more.setdefault("terms", LeaseTerms(jitter=0.0))
        broker = CredentialBroker(
            self.ledger,
            {"fake": self.provider},
            frozenset(map(parse_grant, grants or ("fake:read",))),
            Holder("run-1", "ses-1", "host:1:1"),
            clock=self.clock,
            chance=lambda: 0.5,
            on_change=lambda change, _lease: self.changes.append(change),
            **more,
        )
        self.brokers.append(broker)
        return broker

    async def lease(self, **more: Any) -> tuple[CredentialBroker, Lease]:
        broker = self.broker(**more)
        return broker, await broker.acquire("fake", "read", budget=HOUR)

    def rows(self, state: str = "") -> list[LeaseRow]:
        return [row for row in self.ledger.rows() if state in ("", row.state)]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    house.provider.gate.set()
    for broker in house.brokers:
        await broker.close()
    house.journal.close()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for is in the ledger, and knows no events
        await asyncio.sleep(0)


def everything_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir() if path.is_file())


async def test_a_lease_lives_a_quarter_of_an_hour_and_shows_no_secret(house):
    broker, lease = await house.lease()
    assert lease.lifetime == 900
    assert lease.budget == Budget(3600, 900, 6)
    secret = broker.credential(lease.id).main.reveal()
    assert secret == "secret-of-handle-1"
    assert secret not in repr(lease) + repr(broker.leases()) + repr(broker.credential(lease.id))
    assert lease.credential is None


async def test_nothing_is_minted_without_a_grant(house):
    broker = house.broker("fake:write")
    with pytest.raises(GrantMissing, match="--grant fake:read"):
        await broker.acquire("fake", "read", budget=HOUR)
    assert house.provider.minted == []
    assert house.rows() == []


async def test_a_grant_does_not_make_a_provider_or_a_scope(house):
    broker = house.broker("fake:raed", "other:read")
    with pytest.raises(UnknownName, match="Did you mean 'read'"):
        await broker.acquire("fake", "raed", budget=HOUR)
    with pytest.raises(UnknownName, match="credential provider 'other'"):
        await broker.acquire("other", "read", budget=HOUR)


async def test_the_first_credential_lives_no_longer_than_the_budget(house):
    lease = await house.broker().acquire("fake", "read", budget=Budget(3600, 3500))
    assert lease.lifetime == 100
    assert lease.budget.exhausted
    assert house.provider.minted[0].seconds == 100


async def test_a_credential_that_must_live_longer_is_still_leased_for_the_budget_only(house):
    house.provider.traits = seam.ProviderTraits(revocable=True, findable=True, shortest=3600, longest=3600)
    broker = house.broker()
    lease = await broker.acquire("fake", "read", budget=Budget(60, renewals_left=0))
    assert house.provider.minted[0].seconds == 3600
    assert lease.lifetime == 60
    await house.clock.advance(61)
    with pytest.raises(LeaseEnded):
        broker.credential(lease.id)
    await until(lambda: house.provider.books == {})


async def test_a_credential_that_lives_shorter_costs_less(house):
    house.provider.lives = lambda _seconds: 300.0
    lease = await house.broker().acquire("fake", "read", budget=HOUR)
    assert (lease.lifetime, lease.budget.spent_seconds) == (300, 300)


async def test_for_more_than_its_budget_a_person_is_asked(house):
    approver = ScriptedApprover(Verdict.ALLOW)
    broker = house.broker(approver=approver)
    lease = await broker.acquire("fake", "read", budget=HOUR)
    lease = await broker.extend(lease.id, reason="to read")
    (request,) = approver.requests
    assert request.kind is ApprovalKind.CREDENTIAL
    assert (request.title, request.reason) == ("Hold fake:read for up to 1 h more", "to read")
    assert request.arguments == {
        "provider": "fake",
        "scope": "read",
        "total_seconds": 3600.0,
        "renewals": 6,
        "ttl_seconds": 900.0,
    }
    assert lease.budget.total_seconds == 7200


async def test_a_no_and_nobody_to_ask_mint_nothing(house):
    with pytest.raises(LeaseEnded):
        await house.broker().acquire("fake", "read", budget=Budget(60, 60))
    assert house.provider.minted == []
    for approver, error, why in (
        (ScriptedApprover(Verdict.TIMEOUT), ApprovalDenied, "nobody answered in time"),
        (None, ApprovalRequired, "nobody can be asked"),
    ):
        broker = house.broker(approver=approver)
        lease = await broker.acquire("fake", "read", budget=HOUR)
        minted = list(house.provider.minted)
        with pytest.raises(error, match=why):
            await broker.extend(lease.id)
        assert house.provider.minted == minted


async def test_the_intent_is_written_down_before_the_provider_is_asked(house):
    house.provider.gate.clear()
    task = asyncio.create_task(house.broker().acquire("fake", "read", budget=HOUR))
    await until(lambda: bool(house.provider.books))
    (row,) = house.rows()
    assert (row.state, row.handle, [row.id]) == ("minting", "", list(house.provider.books.values()))
    house.provider.gate.set()
    lease = await task
    (row,) = house.rows()
    assert (row.state, row.handle, row.lease_id) == ("live", "handle-1", lease.id)


async def test_a_lease_is_renewed_in_the_background_until_its_budget_ends(house):
    broker, lease = await house.lease()
    for _ in range(12):
        await house.clock.advance(299)
        broker.credential(lease.id)
        assert len(house.provider.books) == 1
    (now,) = broker.leases()
    assert now.id == lease.id
    assert now.renewals == 4
    assert now.budget.exhausted
    assert now.expires_at == lease.issued_at + (lease.expires_at - lease.issued_at) * 4
    await house.clock.advance(13)
    with pytest.raises(LeaseEnded, match="nobody can be asked"):
        broker.credential(lease.id)
    await until(lambda: house.provider.books == {})
    assert house.rows("live") == []


async def test_past_its_budget_a_person_is_asked_again_and_the_work_goes_on(house):
    approver = ScriptedApprover(Verdict.ALLOW)
    broker = house.broker(approver=approver)
    lease = await broker.acquire("fake", "read", budget=Budget(900))
    for _ in range(10):
        await house.clock.advance(100)
        broker.credential(lease.id)
    (request,) = approver.requests
    assert request.title == "Hold fake:read for up to 1 h more"
    assert "held up" in house.changes
    assert broker.leases()[0].budget.total_seconds == 900 + 3600


async def test_while_nobody_answers_the_lease_is_on_hold_and_revoked_and_comes_back(house):
    answer = asyncio.Event()

    class Slow(ScriptedApprover):
        async def approve(self, request: Any) -> Any:
            await answer.wait()
            return await super().approve(request)

    broker = house.broker(approver=Slow(Verdict.ALLOW))
    lease = await broker.acquire("fake", "read", budget=Budget(100))
    await house.clock.advance(101)
    with pytest.raises(LeaseEnded, match="is on hold: its budget is used up, and a person is being asked"):
        broker.credential(lease.id)
    await until(lambda: house.provider.books == {})
    answer.set()
    await until(lambda: bool(house.provider.books))
    await until(lambda: not broker.leases()[0].ended)
    assert broker.credential(lease.id).main.reveal() == "secret-of-handle-2"


async def test_a_no_to_more_ends_it_at_its_end_and_not_before(house):
    broker = house.broker(approver=ScriptedApprover(Verdict.DENY, Verdict.ALLOW))
    lease = await broker.acquire("fake", "read", budget=Budget(100))
    await house.clock.advance(99)
    broker.credential(lease.id)
    await house.clock.advance(2)
    with pytest.raises(LeaseEnded, match="not approved"):
        broker.credential(lease.id)
    again = await broker.extend(lease.id)
    assert not again.ended
    assert broker.credential(lease.id)


async def test_renewals_that_are_used_up_end_it_too(house):
    broker = house.broker()
    lease = await broker.acquire("fake", "read", budget=Budget(3600, renewals_left=1))
    await broker.renew(lease.id)
    with pytest.raises(LeaseEnded, match="used up"):
        await broker.renew(lease.id)
    assert broker.credential(lease.id)


async def test_a_grant_that_is_withdrawn_stops_use_and_renewal(house):
    broker, lease = await house.lease()
    broker.grants = ()
    with pytest.raises(GrantMissing):
        broker.credential(lease.id)
    with pytest.raises(GrantMissing):
        await broker.renew(lease.id)
    await house.clock.advance(901)
    await until(lambda: house.provider.books == {})
    assert len(house.provider.minted) == 1


async def test_a_renewal_revokes_the_old_credential_once_requests_that_took_it_along_have_arrived(house):
    broker, lease = await house.lease()
    await house.clock.advance(100)
    renewed = await broker.renew(lease.id)
    assert renewed.id == lease.id
    assert renewed.budget == Budget(3600, 1000, 5)
    assert broker.credential(lease.id).main.reveal() == "secret-of-handle-2"
    await house.clock.advance(4)
    assert list(house.provider.books) == ["handle-1", "handle-2"]
    assert {row.state for row in house.rows()} == {"live", "owed"}
    await house.clock.advance(2)
    await until(lambda: list(house.provider.books) == ["handle-2"])
    assert {row.state for row in house.rows()} == {"live", "gone"}


async def test_a_lease_that_is_released_takes_its_earlier_credentials_along_at_once(house):
    broker, lease = await house.lease()
    await house.clock.advance(100)
    await broker.renew(lease.id)
    await broker.release(lease.id)
    await until(lambda: house.provider.books == {})
    assert {row.state for row in house.rows()} == {"gone"}


async def test_a_provider_in_trouble_is_asked_again_until_the_end_and_after_it(house):
    broker, lease = await house.lease()
    house.provider.mint_errors.extend(LeaseUnavailable("fake", "busy") for _ in range(20))
    await house.clock.advance(899)
    broker.credential(lease.id)
    await house.clock.advance(2)
    with pytest.raises(LeaseEnded, match="busy"):
        broker.credential(lease.id)
    await house.clock.advance(300)
    assert house.provider.mint_errors == type(house.provider.mint_errors)()
    assert broker.credential(lease.id)


async def test_a_renewal_that_fails_as_none_should_ends_the_lease_and_revokes_its_credential_at_its_end(house):
    broker, lease = await house.lease()
    house.provider.mint_errors.append(ValueError("s3cret"))
    await house.clock.advance(899)
    broker.credential(lease.id)
    await house.clock.advance(2)
    with pytest.raises(LeaseEnded, match=r"its renewal failed \(ValueError\)"):
        broker.credential(lease.id)
    assert house.changes == ["on hold"]
    await until(lambda: house.provider.books == {})


async def test_a_first_credential_is_asked_for_more_than_once(house):
    house.provider.mint_errors.extend([LeaseUnavailable("fake", "busy"), LeaseUnavailable("fake", "x", retry_after=60)])
    task = asyncio.create_task(house.broker().acquire("fake", "read", budget=HOUR))
    await house.clock.advance(2)
    await house.clock.advance(58)
    assert not task.done()
    await house.clock.advance(4)
    assert (await task).lifetime == 900
    house.provider.mint_errors.extend(LeaseUnavailable("fake", "busy") for _ in range(9))
    task = asyncio.create_task(house.broker().acquire("fake", "read", budget=HOUR))
    await house.clock.advance(20)
    with pytest.raises(LeaseUnavailable):
        await task
    assert len(house.provider.mint_errors) == 6


async def test_a_refusal_is_told_at_once_and_leaves_nothing_owed(house):
    house.provider.mint_errors.append(LeaseRefused("fake", "wrong key"))
    with pytest.raises(LeaseRefused):
        await house.broker().acquire("fake", "read", budget=HOUR)
    assert [row.state for row in house.rows()] == ["gone"]


async def test_what_an_answer_that_was_lost_had_made_is_found_and_revoked(house):
    house.provider.lost_answers.append(LeaseUnavailable("fake", "cut off", uncertain=True))
    broker = house.broker()
    task = asyncio.create_task(broker.acquire("fake", "read", budget=HOUR))
    await house.clock.advance(2)
    lease = await task
    await until(lambda: len(house.provider.books) == 1)
    assert broker.credential(lease.id).main.reveal() in house.provider.values


async def test_releasing_revokes_and_gives_the_time_back(house):
    broker, lease = await house.lease()
    await house.clock.advance(100)
    kept = await broker.release(lease.id)
    assert kept is not None
    assert (kept.provider, kept.scope, kept.budget) == ("fake", lease.scope, Budget(3600, 100, 6))
    assert house.provider.books == {}
    assert [(row.state, row.handle, row.why) for row in house.rows()] == [("gone", "", "revoked")]
    assert await broker.release(lease.id) is None
    with pytest.raises(LeaseEnded):
        broker.credential(lease.id)


async def test_what_cannot_be_revoked_is_left_to_expire_and_paid_for(house):
    house.provider.traits = LASTING
    broker, lease = await house.lease()
    kept = await broker.release(lease.id)
    assert kept is not None
    assert kept.budget.spent_seconds == 900
    assert [row.why for row in house.rows()] == ["left to expire"]


async def test_a_resumed_run_goes_on_with_the_budget_of_its_checkpoint(house):
    broker, _ = await house.lease()
    await house.clock.advance(600)
    (kept,) = await broker.close()
    assert "secret" not in json.dumps(asdict(kept), default=str)
    lease = await house.broker().acquire(kept.provider, kept.scope, budget=kept.budget)
    assert lease.budget == Budget(3600, 1500, 6)


async def test_revoking_is_tried_again_until_the_provider_knows_of_it(house):
    broker, lease = await house.lease()
    house.provider.revocations.extend([RETRY, LeaseUnavailable("fake", "down"), RETRY])
    await broker.release(lease.id)
    assert [row.state for row in house.rows()] == ["owed"]
    await house.clock.advance(60)
    assert house.provider.books == {}
    assert [row.state for row in house.rows()] == ["gone"]


async def test_a_credential_the_provider_forgot_is_forgotten(house):
    broker, lease = await house.lease()
    house.provider.books.clear()
    await broker.release(lease.id)
    assert [(row.state, row.why) for row in house.rows()] == [("gone", "forgotten")]


@pytest.mark.parametrize("traits", [seam.ProviderTraits(True, True, 3600), UNFINDABLE])  # noqa: FBT003 - two traits
async def test_whoever_is_cancelled_while_a_credential_is_minted_leaves_none(house, traits):
    house.provider.traits = traits
    house.provider.gate.clear()
    broker = house.broker()
    task = asyncio.create_task(broker.acquire("fake", "read", budget=HOUR))
    await until(lambda: bool(house.provider.books))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    house.provider.gate.set()
    await until(lambda: house.provider.books == {})
    await until(lambda: house.rows("gone") != [])
    assert broker.leases() == ()


async def test_at_no_await_does_a_cancel_leave_a_credential_that_nobody_knows(house):
    for steps in range(90):
        broker = house.broker()

        async def life(broker: CredentialBroker = broker) -> None:
            lease = await broker.acquire("fake", "read", budget=HOUR)
            await broker.renew(lease.id)
            await broker.release(lease.id)

        task = asyncio.create_task(life())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        known = {row.handle for row in house.ledger.open_rows()} | {
            handle for row in house.ledger.open_rows() if (handle := await house.provider.find(row.id))
        }
        assert set(house.provider.books) <= known, steps
        await broker.close()
        assert house.provider.books == {}, steps
        assert house.ledger.open_rows() == [], steps


async def test_a_close_that_is_cancelled_leaves_everything_owed_and_no_task(house):
    broker, _ = await house.lease()
    house.provider.gate.clear()
    task = asyncio.create_task(broker.close())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    house.provider.gate.set()
    await asyncio.gather(task, return_exceptions=True)
    assert house.rows("live") == []
    await until(lambda: len(asyncio.all_tasks()) == 1)


async def test_a_closed_broker_gives_nothing_more(house):
    broker = house.broker()
    await broker.close()
    with pytest.raises(LeaseEnded, match="the run is over"):
        await broker.acquire("fake", "read", budget=HOUR)
    assert await broker.close() == ()


async def test_a_credential_that_cannot_be_written_down_is_revoked_and_not_used(house, monkeypatch):
    def full(*_: object, **__: object) -> bool:
        raise JournalUnwritable("journal.db", "the disk is full")

    monkeypatch.setattr(house.ledger, "complete", full)
    broker = house.broker()
    with pytest.raises(JournalUnwritable):
        await broker.acquire("fake", "read", budget=HOUR)
    assert house.provider.books == {}
    assert broker.leases() == ()


async def test_a_journal_that_cannot_be_written_mints_nothing(house):
    broker = house.broker()
    house.journal.close()
    with pytest.raises(JournalUnwritable):
        await broker.acquire("fake", "read", budget=HOUR)
    assert house.provider.minted == []


async def test_no_secret_is_in_the_journal(house: House, tmp_path: Path) -> None:
    broker, lease = await house.lease()
    await broker.renew(lease.id)
    seen = [secret.reveal().encode() for secret in broker.seen_secrets()]
    assert len(seen) == 2
    await broker.close()
    stored = everything_in(tmp_path)
    assert b"run-1" in stored
    assert not [secret for secret in seen if secret in stored]


async def test_many_leases_at_once_are_all_given_back(house):
    broker = house.broker()
    await asyncio.gather(*(broker.acquire("fake", "read", budget=HOUR) for _ in range(20)))
    assert len(house.provider.books) == 20
    assert len(await broker.close()) == 20
    assert house.provider.books == {}
    assert house.changes.count("released") == 20


async def test_a_journal_that_fails_at_the_end_keeps_no_secret_alive(house, monkeypatch):
    def full(*_: object, **__: object) -> bool:
        raise JournalUnwritable("journal.db", "the disk is full")

    broker = house.broker()
    one = await broker.acquire("fake", "read", budget=HOUR)
    await broker.acquire("fake", "read", budget=HOUR)
    monkeypatch.setattr(house.ledger, "owe", full)
    monkeypatch.setattr(house.ledger, "claim", full)
    with pytest.raises(JournalUnwritable):
        await broker.renew(one.id)
    with pytest.raises(JournalUnwritable):
        await broker.close()
    assert house.provider.books == {}
    assert broker.leases() == ()


async def test_what_is_still_being_minted_when_the_run_ends_is_given_back(house):
    broker = house.broker()
    house.provider.gate.clear()
    acquiring = asyncio.create_task(broker.acquire("fake", "read", budget=HOUR))
    await until(lambda: bool(house.provider.books))
    closing = asyncio.create_task(broker.close())
    await asyncio.sleep(0)
    house.provider.gate.set()
    await closing
    with pytest.raises(LeaseEnded, match="the run is over"):
        await acquiring
    assert house.provider.books == {}
    assert house.ledger.open_rows() == []


async def test_what_is_still_being_renewed_when_it_is_released_is_given_back(house):
    broker, lease = await house.lease()
    house.provider.gate.clear()
    renewing = asyncio.create_task(broker.renew(lease.id))
    await until(lambda: len(house.provider.books) == 2)
    releasing = asyncio.create_task(broker.release(lease.id))
    await asyncio.sleep(0)
    with pytest.raises(LeaseEnded):
        broker.credential(lease.id)
    house.provider.gate.set()
    await releasing
    with pytest.raises(LeaseEnded):
        await renewing
    await until(lambda: house.provider.books == {})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long."""
    monkeypatch.setattr(revoking, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(brokers, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(brokers, "LAST_SECONDS", 0.05)


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for one answer."""
    monkeypatch.setattr(revoking, "PROVIDER_SECONDS", 0.05)


@pytest.mark.usefixtures("timeless")
async def test_a_mint_that_never_answers_is_owed_and_revoked_once_the_provider_does(house):
    house.provider.gate.clear()
    broker = house.broker(terms=LeaseTerms(attempts=1))
    async with asyncio.timeout(30):
        with pytest.raises(LeaseUnavailable, match="did not answer within") as caught:
            await broker.acquire("fake", "read", budget=HOUR)
    assert caught.value.uncertain
    (row,) = house.rows("owed")
    assert row.why.startswith("it is not known whether it was minted: ")
    house.provider.gate.set()
    await broker.close()
    assert house.provider.books == {}


@pytest.mark.usefixtures("timeless")
async def test_a_revocation_that_never_answers_is_owed_and_tried_again(house):
    broker, lease = await house.lease()
    house.provider.gate.clear()
    async with asyncio.timeout(30):
        await broker.release(lease.id)
    (row,) = house.rows("owed")
    assert (row.attempts, "did not answer within" in row.why) == (1, True)
    house.provider.gate.set()
    await house.clock.advance(10)
    await until(lambda: house.provider.books == {})


@pytest.mark.usefixtures("timeless")
async def test_a_look_up_that_never_answers_says_that_nothing_is_known(house, monkeypatch):
    async def silent(_mark: str) -> str:
        await asyncio.Event().wait()
        return ""

    house.provider.lost_answers.append(LeaseUnavailable("fake", "the connection broke", uncertain=True))
    broker = house.broker(terms=LeaseTerms(attempts=1))
    with monkeypatch.context() as patch:
        patch.setattr(house.provider, "find", silent)
        with pytest.raises(LeaseUnavailable):
            await broker.acquire("fake", "read", budget=HOUR)
        async with asyncio.timeout(30):
            await until(lambda: house.rows()[0].attempts == 1)
    (row,) = house.rows("owed")
    assert row.why.startswith("it is not known whether it was minted: ")
    assert "did not answer within" in row.why


@pytest.mark.usefixtures("impatient")
async def test_a_provider_that_never_takes_back_does_not_keep_a_run_from_ending(house):
    broker, _ = await house.lease()
    house.provider.gate.clear()
    async with asyncio.timeout(30):
        (kept,) = await broker.close()
    assert kept.budget == Budget(3600, 900, 6)
    assert house.changes == ["released"]
    (row,) = house.rows("owed")
    assert house.ledger.claim(row.id, by="somebody else", until=house.clock.now())
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


@pytest.mark.usefixtures("impatient")
async def test_a_provider_that_never_mints_does_not_keep_a_run_from_ending(house):
    broker = house.broker()
    house.provider.gate.clear()
    acquiring = asyncio.create_task(broker.acquire("fake", "read", budget=HOUR))
    await until(lambda: bool(house.provider.books))
    async with asyncio.timeout(30):
        assert await broker.close() == ()
    await asyncio.gather(acquiring, return_exceptions=True)
    (row,) = house.rows("owed")
    assert row.handle == ""
    assert row.why.startswith("it is not known whether it was minted: ")


@pytest.mark.usefixtures("impatient")
async def test_a_provider_that_cannot_be_called_off_is_left_to_itself(house, monkeypatch):
    over = asyncio.Event()

    async def stubborn(handle: str) -> seam.Revocation:
        del handle
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()
        return RETRY

    broker, _ = await house.lease()
    monkeypatch.setattr(house.provider, "revoke", stubborn)
    async with asyncio.timeout(30):
        await broker.close()
    assert [row.state for row in house.rows()] == ["owed"]
    over.set()
    await until(lambda: len(asyncio.all_tasks()) == 1)


async def test_a_provider_that_breaks_in_a_way_nobody_thought_of_leaves_nothing(house):
    house.provider.lost_answers.append(RuntimeError("a bug"))
    broker = house.broker()
    with pytest.raises(RuntimeError):
        await broker.acquire("fake", "read", budget=HOUR)
    await until(lambda: house.provider.books == {})


async def test_a_credential_that_is_dead_when_it_comes_is_not_used(house):
    house.provider.lives = lambda _seconds: 0.0
    broker = house.broker(terms=LeaseTerms(attempts=1))
    with pytest.raises(LeaseUnavailable, match="expired already"):
        await broker.acquire("fake", "read", budget=HOUR)
    await until(lambda: house.provider.books == {})


async def test_a_row_that_was_settled_while_it_was_minted_does_not_come_to_life(house):
    house.provider.gate.clear()
    broker = house.broker(terms=LeaseTerms(attempts=1))
    task = asyncio.create_task(broker.acquire("fake", "read", budget=HOUR))
    await until(lambda: bool(house.provider.books))
    (row,) = house.rows()
    house.ledger.close(row.id, "expired")
    house.provider.gate.set()
    with pytest.raises(LeaseUnavailable, match="swept away"):
        await task
    assert house.provider.books == {}


async def test_a_checkpoint_of_what_is_held_has_no_secret(house):
    broker, lease = await house.lease()
    (kept,) = broker.leases()
    assert (kept.provider, kept.scope, kept.budget) == ("fake", lease.scope, Budget(3600, 900, 6))
    assert (kept.credential, kept.handle) == (None, "")


async def test_by_the_clock_on_the_wall_a_run_outlives_its_credentials_until_its_budget_ends(tmp_path):
    journal = Journal.open(tmp_path)
    provider = FakeProvider()
    approver = ScriptedApprover(Verdict.DENY)
    broker = CredentialBroker(
        LeaseLedger(journal),
        {"fake": provider},
        frozenset([parse_grant("fake:read")]),
        Holder("run-1", "ses-1", "host:1:1"),
        approver=approver,
        terms=LeaseTerms(ttl=1.5),
    )
    lease = await broker.acquire("fake", "read", budget=Budget(4.5, renewals_left=10))
    began = asyncio.get_running_loop().time()
    with pytest.raises(LeaseEnded):  # noqa: PT012 - until it does
        while asyncio.get_running_loop().time() < began + 60:
            broker.credential(lease.id)
            await asyncio.sleep(0.02)
    assert asyncio.get_running_loop().time() >= began + 4.0
    assert len(provider.minted) >= 3
    await until(lambda: len(approver.requests) == 1 and provider.books == {})
    await broker.close()
    journal.close()


async def test_more_time_that_is_allowed_while_a_renewal_is_under_way_is_not_lost(house):
    broker, lease = await house.lease(approver=ScriptedApprover(Verdict.ALLOW))
    house.provider.gate.clear()
    renewing = asyncio.create_task(broker.renew(lease.id))
    await until(lambda: len(house.provider.books) == 2)
    extending = asyncio.create_task(broker.extend(lease.id))
    for _ in range(20):
        await asyncio.sleep(0)
    house.provider.gate.set()
    await asyncio.gather(renewing, extending)
    (held,) = broker.leases()
    assert held.budget.total_seconds == HOUR.total_seconds + LeaseTerms().budget.total_seconds


async def test_nothing_is_minted_for_who_waited_for_another_attempt_when_the_broker_closed(house):
    broker = house.broker()
    house.provider.mint_errors.append(LeaseUnavailable("fake", "busy"))
    waiting = asyncio.create_task(broker.acquire("fake", "read", budget=HOUR))
    await until(lambda: not house.provider.mint_errors)
    for _ in range(20):
        await asyncio.sleep(0)
    await broker.close()
    await house.clock.advance(5)
    with pytest.raises(LeaseEnded, match="the run is over"):
        await waiting
    assert house.provider.books == {}
    assert house.rows("live") + house.rows("owed") == []
