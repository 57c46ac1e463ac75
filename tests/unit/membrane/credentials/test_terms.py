from __future__ import annotations

from datetime import UTC, datetime

from kagura_kernel.membrane.credentials.lease import Budget, Holder, LeaseTerms, ask_for, parse_grant

NOW = datetime(2026, 1, 1, tzinfo=UTC)
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
    asked = ask_for(parse_grant("aws:s3"), terms, HOLDER, NOW, note="It outlives.", reason="why", again=True)
    assert asked.title == "Hold aws:s3 for up to 1.5 h more"
    assert asked.detail.splitlines() == [
        "Provider aws, scope s3.",
        "Held for at most 1.5 h more, renewed at most 3 times more.",
        "Each credential is meant to live 30 s.",
        "It outlives.",
    ]
    assert (asked.run_id, asked.session_id, asked.reason, asked.deadline) == ("run-1", "ses-1", "why", 300.0)


def test_another_amount_is_another_question() -> None:
    one = ask_for(parse_grant("aws:s3"), LeaseTerms(), HOLDER, NOW, note="", reason="", again=False)
    two = ask_for(parse_grant("aws:s3"), LeaseTerms(budget=Budget(7200)), HOLDER, NOW, note="", reason="", again=False)
    assert one.content_hash != two.content_hash
