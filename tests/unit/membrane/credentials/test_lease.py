from __future__ import annotations

import dataclasses
import json
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.membrane.credentials.lease import Budget, Lease, LeaseCheckpoint, Scope
from kagura_kernel.membrane.credentials.secret import Credential

VALUE = "s3cr3t-value-of-a-lease"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = Lease(
    id="lea-1",
    provider="github",
    scope=Scope("read"),
    issued_at=NOW,
    expires_at=NOW + timedelta(seconds=900),
    budget=Budget(3600, 900, 6),
    credential=Credential.token(VALUE),
)


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


def test_a_checkpoint_keeps_the_budget_and_never_the_credential() -> None:
    kept = LEASE.checkpoint()
    text = json.dumps(kept.to_json())
    assert VALUE not in text
    assert LeaseCheckpoint.from_json(json.loads(text)) == LeaseCheckpoint("github", Scope("read"), Budget(3600, 900, 6))


@pytest.mark.parametrize("value", [{}, {"provider": "a", "scope": "b"}, {"provider": "a", "scope": "b", "budget": 1}])
def test_what_is_no_checkpoint_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"checkpoint|budget"):
        LeaseCheckpoint.from_json(value)


def test_it_knows_how_long_it_lasts() -> None:
    assert LEASE.lifetime == 900
    assert LEASE.seconds_left(NOW + timedelta(seconds=100)) == 800
    assert LEASE.seconds_left(NOW + timedelta(hours=1)) == 0
    assert dataclasses.replace(LEASE, ended="released").seconds_left(NOW) == 0
