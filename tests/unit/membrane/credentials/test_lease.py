"""Leases as values: grants, budgets, terms, and what a run holds."""

import dataclasses
import json
import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.errors import GrantMissing, LeaseEnded, UsageError
from kagura_kernel.membrane.credentials.lease import (
    Budget,
    Grant,
    Holder,
    Lease,
    LeaseTerms,
    ask_for,
    parse_grant,
    require_granted,
)
from kagura_kernel.membrane.credentials.provider import Minted, Scope
from kagura_kernel.membrane.credentials.secret import Credential

VALUE = "s3cr3t-value-of-a-lease"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
GRANT = Grant("github", Scope("read"))
ASKED = Lease.ask(GRANT, Budget(3600, 0, 6))
LEASE = ASKED.acquire(900).minted("lea-1", Minted(Credential.token(VALUE), 3600, "sealed-handle"), NOW)


def test_it_never_shows_its_credential() -> None:
    shown = (
        repr(LEASE) + str(LEASE) + str(dataclasses.asdict(LEASE)) + json.dumps(dataclasses.asdict(LEASE), default=str)
    )
    assert VALUE not in shown
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(LEASE)


def test_a_copy_without_the_credential_can_go_anywhere() -> None:
    bare = LEASE.without_credential()
    assert bare.credential is None
    assert bare == LEASE
    copied = pickle.loads(pickle.dumps(bare))
    assert copied == bare
    assert VALUE.encode() not in pickle.dumps(bare)


def test_a_copy_without_the_credential_keeps_the_budget_and_nothing_that_opens_or_revokes() -> None:
    assert LEASE.handle == "sealed-handle"
    for copy in (LEASE.without_credential(), LEASE.hold("released")):
        text = json.dumps(dataclasses.asdict(copy), default=str)
        assert VALUE not in text
        assert "sealed-handle" not in text
        assert (copy.provider, copy.scope, copy.budget) == ("github", "read", Budget(3600, 900, 6))


def test_its_repr_shows_no_handle() -> None:
    assert "sealed-handle" not in repr(LEASE)


def test_it_knows_how_long_it_lasts() -> None:
    assert LEASE.lifetime == 900
    assert LEASE.seconds_left(NOW + timedelta(seconds=100)) == 800
    assert LEASE.seconds_left(NOW + timedelta(hours=1)) == 0
    assert dataclasses.replace(LEASE, ended="released").seconds_left(NOW) == 0


def test_what_a_provider_does_not_give_goes_back_to_the_budget() -> None:
    short = ASKED.acquire(900).minted("lea-1", Minted(Credential.token(VALUE), 60), NOW)
    assert (short.lifetime, short.expires_at, short.budget) == (60, NOW + timedelta(seconds=60), Budget(3600, 60, 6))


def test_renewed_it_keeps_its_id_and_pays_for_what_is_added() -> None:
    wanted = LEASE.renew(900, 225)
    assert (wanted.lifetime, wanted.budget, wanted.row_id) == (900, Budget(3600, 1575, 5), "lea-1")
    fresh = wanted.minted("lea-2", Minted(Credential.token("another"), 900), NOW)
    assert (fresh.id, fresh.row_id, fresh.renewals) == ("lea-1", "lea-2", 1)


def test_on_hold_it_has_no_row_to_replace_and_a_renewal_takes_it_off() -> None:
    held = LEASE.hold("its budget is used up")
    assert (held.row_id, held.credential, held.ended) == ("", None, "its budget is used up")
    assert held.renew(900, 0).minted("lea-3", Minted(Credential.token("another"), 900), NOW).ended == ""


def test_without_a_renewal_left_it_is_not_renewed_until_it_is_extended() -> None:
    spent = Lease.ask(GRANT, Budget(900, 0, 0)).acquire(900)
    with pytest.raises(LeaseEnded, match="budget is used up"):
        spent.renew(900, 0)
    assert spent.extend(Budget(600, 0, 1)).renew(900, 0).budget == Budget(1500, 1500, 0)


HOLDER = Holder("run-1", "ses-1", "host:1:1")


def test_by_default_a_credential_lives_a_quarter_of_an_hour_under_a_budget_of_an_hour() -> None:
    assert (LeaseTerms().ttl, LeaseTerms().budget.total_seconds) == (900, 3600)


def test_a_renewal_comes_before_the_end_and_not_at_one_moment_for_all() -> None:
    terms = LeaseTerms()
    assert terms.renewal_in(900, 0.0) == 675
    assert terms.renewal_in(900, 0.0) < terms.renewal_in(900, 1.0) < 900
    assert LeaseTerms(renew_after=2.0).renewal_in(100, 0.0) == 95


def test_pauses_grow_and_honour_what_the_provider_asks_for() -> None:
    terms = LeaseTerms()
    assert [terms.pause(number, 0.5) for number in (1, 2, 3, 9)] == [1, 2, 4, 30]
    assert terms.pause(1, 0.5, 20.0) == 20
    assert terms.pause(1, 0.5, 1e9) == 300


def test_what_is_asked_for_is_a_budget_with_all_its_numbers() -> None:
    terms = LeaseTerms(budget=Budget(5400, renewals_left=3), ttl=30)
    asked = ask_for(parse_grant("aws:s3"), terms, HOLDER, NOW, note="It outlives.", reason="why")
    assert asked.title == "Hold aws:s3 for up to 1.5 h more"
    assert asked.detail.splitlines() == [
        "Provider aws, scope s3.",
        "Held for at most 1.5 h more, renewed at most 3 times more.",
        "Each credential is meant to live 30 s.",
        "It outlives.",
    ]
    assert (asked.run_id, asked.session_id, asked.reason, asked.deadline) == ("run-1", "ses-1", "why", 300.0)


def test_another_amount_is_another_question() -> None:
    one = ask_for(parse_grant("aws:s3"), LeaseTerms(), HOLDER, NOW, note="", reason="")
    two = ask_for(parse_grant("aws:s3"), LeaseTerms(budget=Budget(7200)), HOLDER, NOW, note="", reason="")
    assert one.content_hash != two.content_hash


SECONDS = st.floats(0, 1e6)


def test_by_default_it_is_an_hour_and_six_renewals() -> None:
    assert Budget() == Budget(total_seconds=3600, spent_seconds=0, renewals_left=6)
    assert Budget().remaining_seconds == 3600
    assert not Budget().exhausted


def test_the_first_credential_is_capped_by_what_is_left() -> None:
    assert Budget(3600).first(900) == 900
    assert Budget(3600, 3500).first(900) == 100


def test_a_renewal_spends_only_the_time_that_it_adds() -> None:
    budget = Budget(3600, 900)
    assert budget.extension(900, held_for=225) == 675
    assert budget.renew(675) == Budget(3600, 1575, 5)
    assert Budget(1000, 900).extension(900, held_for=225) == 100
    assert budget.extension(900, held_for=-50) == 900
    assert budget.extension(900, held_for=1000) == 0


def test_it_is_never_overdrawn() -> None:
    with pytest.raises(ValueError, match="cannot be spent"):
        Budget(100).spend(101)
    with pytest.raises(ValueError, match="cannot be spent"):
        Budget(100).spend(-1)
    with pytest.raises(ValueError, match="no renewal"):
        Budget(100, renewals_left=0).renew(1)


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (1, -1, 0), (1, 0, -1), (float("nan"), 0, 0), (float("inf"), 0, 0)])
def test_nonsense_is_no_budget(numbers: tuple[float, float, int]) -> None:
    with pytest.raises(ValueError, match="budget"):
        Budget(*numbers)


def test_exhausted_and_renewable() -> None:
    assert Budget(100, 100).exhausted
    assert not Budget(100, 100).renewable
    assert not Budget(100, 0, 0).renewable
    assert Budget(100, 99, 1).renewable


def test_more_adds_to_what_is_left() -> None:
    assert Budget(100, 100, 0).extend(Budget(3600, 0, 6)) == Budget(3700, 100, 6)
    assert Budget(100, 40, 1).extend(Budget(50, 20, 2)) == Budget(130, 40, 3)


@given(SECONDS, st.lists(st.tuples(SECONDS, SECONDS), max_size=20))
def test_whatever_happens_no_more_is_held_than_was_approved(total: float, renewals: list[tuple[float, float]]) -> None:
    """Renewing at any moment of a lease's life never makes the held time longer than the total."""
    budget = Budget(total, renewals_left=100)
    first = budget.first(900)
    budget = budget.spend(first)
    now, ends = 0.0, first
    for wait, ttl in renewals:
        now = min(ends, now + wait)
        if not budget.renewable:
            break
        added = budget.extension(ttl, ends - now)
        budget = budget.renew(added)
        ends = max(ends, now) + added
    assert ends <= total + 1e-3
    assert budget.spent_seconds <= budget.total_seconds


def test_a_grant_is_written_provider_colon_scope() -> None:
    assert parse_grant("github:read") == Grant("github", Scope("read"))
    assert parse_grant("aws:arn:aws:s3") == Grant("aws", Scope("arn:aws:s3"))
    assert str(parse_grant("github:read")) == "github:read"


@pytest.mark.parametrize(
    "text", ["", "github", "github:", ":read", "github:*", "git*:read", "GitHub:read", "github: read", "github:read\n"]
)
def test_anything_else_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_grant(text)
    assert "PROVIDER:SCOPE" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("github:*", "patterns are not allowed"),
        ("git?:read", "patterns are not allowed"),
        ("démo:x", "a provider's name begins with a small letter and is made of a-z, 0-9, - and _"),
        ("GitHub:read", "a provider's name"),
        ("github:lire é", "a scope's name begins with a letter or digit"),
    ],
)
def test_the_reason_is_the_one_that_applies(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_grant(text)
    assert why in str(caught.value)


def test_a_secret_that_was_pasted_there_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        parse_grant("ghp_abcdefghijklmnop")
    assert "ghp_" not in str(caught.value)


def test_nothing_is_granted_by_default() -> None:
    with pytest.raises(GrantMissing) as caught:
        require_granted((), "github", "read")
    assert (caught.value.provider, caught.value.scope) == ("github", "read")


@pytest.mark.parametrize(
    ("provider", "scope"),
    [*(("github", scope) for scope in ("rea", "reads", "Read", "read ", "read/x", "")), ("gitlab", "read")],
)
def test_only_exactly_what_is_granted_is_allowed(provider: str, scope: str) -> None:
    granted = [parse_grant("github:read")]
    assert require_granted(granted, "github", "read") == parse_grant("github:read")
    with pytest.raises(GrantMissing):
        require_granted(granted, provider, scope)
