import errno
import socket

import pytest

from kagura_kernel.domain.errors import EgressBusy, EgressDenied, EgressSignInRefused, EgressUnreachable
from kagura_kernel.membrane.egress.hosts import Target
from kagura_kernel.membrane.postgres.wire import parse_fields, refused_by_server, told

PLACE = Target("db.example", 5432)


def fields(refusal) -> dict[str, str]:
    return parse_fields(told(refusal)[5:])


def unreachable(cause: BaseException) -> EgressUnreachable:
    refusal = EgressUnreachable("db.example", 5432, "cannot be reached: connect call failed ('10.1.2.3', 5432)")
    refusal.__cause__ = cause
    return refusal


@pytest.mark.parametrize(
    ("refusal", "state", "text"),
    [
        (
            EgressDenied("db.example", 5432, "leads to no public address (169.254.169.254 is bad)", "Grant it"),
            "08004",
            "db.example:5432 may not be reached from here",
        ),
        (
            unreachable(OSError(errno.ECONNREFUSED, "Connect call failed ('10.1.2.3', 5432)")),
            "08001",
            "db.example:5432 cannot be reached: connection refused",
        ),
        (unreachable(TimeoutError()), "08001", "db.example:5432 did not answer in time"),
        (unreachable(socket.gaierror(-2, "x")), "08001", "db.example:5432 could not be looked up"),
        (unreachable(UnicodeError("x")), "08001", "db.example:5432 could not be looked up"),
        (unreachable(OSError("10.1.2.3")), "08001", "db.example:5432 cannot be reached"),
        (EgressBusy("db.example", 5432, "is asked for too fast"), "53300", "db.example:5432 is asked for too fast"),
        (
            EgressSignInRefused("db.example", 5432, "does not agree on TLS"),
            "08004",
            "db.example:5432 does not agree on TLS",
        ),
    ],
)
def test_refusals_are_told_by_state_and_without_an_address(refusal, state, text):
    found = fields(refusal)
    assert (found["S"], found["C"], found["M"]) == ("FATAL", state, text)


def test_words_of_the_server_are_not_passed_on():
    said = {"C": "28P01", "M": 'password authentication failed for user "alice" from 10.1.2.3', "D": "hunter2"}
    refusal = refused_by_server(PLACE, said)
    assert fields(refusal)["M"] == "db.example:5432 did not accept the user name or the password"
    assert fields(refusal)["C"] == "28P01"
    assert not any(word in refusal.message for word in ("alice", "10.1.2.3", "hunter2"))


@pytest.mark.parametrize("state", ["", "x", "toolong", "ab cd", "\ufffd\ufffdabc", "ééééé"])
def test_a_state_that_is_none_is_not_passed_on(state):
    assert fields(refused_by_server(PLACE, {"C": state}))["C"] == "08004"


def test_an_unknown_state_is_told_as_it_is():
    found = fields(refused_by_server(PLACE, {"C": "XX000", "M": "secret"}))
    assert (found["C"], found["M"]) == ("XX000", "db.example:5432 refused the session (SQLSTATE XX000)")
