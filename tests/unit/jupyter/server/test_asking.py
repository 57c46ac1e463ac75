"""Words of a request are understood, or refused with a sentence that names them."""

from __future__ import annotations

import pytest

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.server import asking


@pytest.mark.parametrize(("text", "found"), [("", 50), ("1", 1), ("007", 7), ("500", 500)])
def test_a_number_is_read(text, found):
    assert asking.number("limit", text, 50, 500) == found


@pytest.mark.parametrize("text", ["0", "501", "-1", "1.0", "x", " 1", "٣", "²", "9" * 5000])
def test_what_is_no_such_number_is_refused(text):
    with pytest.raises(UsageError, match=r"`limit` is a number from 1 to 500\."):
        asking.number("limit", text, 50, 500)


def test_one_of_a_few_words():
    assert asking.one_of("state", "", ("live", "ended")) is None
    assert asking.one_of("state", "live", ("live", "ended")) == "live"
    with pytest.raises(UsageError, match=r"`state` is one of live, ended\."):
        asking.one_of("state", "LIVE", ("live", "ended"))


def test_a_text_has_an_end():
    assert asking.short("q", "x" * 500) == "x" * 500
    with pytest.raises(UsageError, match="`q` has at most 500"):
        asking.short("q", "x" * 501)


@pytest.mark.parametrize(
    ("said", "verdict"), [("allow", Verdict.ALLOW), ("deny", Verdict.DENY), ("abort", Verdict.ABORTED)]
)
def test_a_decision_is_a_verdict_and_a_remark(said, verdict):
    assert asking.decision({"verdict": said}) == (verdict, "")
    assert asking.decision({"verdict": said, "answer": "yes"}) == (verdict, "yes")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "`verdict`"),
        ({"verdict": "timeout"}, "`verdict`"),
        ({"verdict": True}, "`verdict`"),
        ({"verdict": {}}, "`verdict`"),
        ({"verdict": "allow", "answer": None}, "`answer` is a text"),
        ({"verdict": "allow", "answer": "x" * 10_001}, "at most 10000"),
    ],
)
def test_what_is_no_decision_is_refused(fields, why):
    with pytest.raises(UsageError, match=why):
        asking.decision(fields)
