from __future__ import annotations

import dataclasses
import json
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.domain.errors import LeaseEnded
from kagura_kernel.membrane.credentials.lease import Budget, Grant, Lease
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
