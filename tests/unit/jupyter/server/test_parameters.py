"""Words of a request are understood, or refused with a sentence that names them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.memory import Tier
from kagura_kernel.jupyter.server import memory
from kagura_kernel.jupyter.server.parameters import Configuration, ContentHash, Number, Text, Truth, Words
from kagura_kernel.jupyter.server.runs import decide

HASH = "ab" * 32


@pytest.mark.parametrize(("text", "found"), [("", 50), ("1", 1), ("007", 7), ("500", 500)])
def test_a_number_is_read(text, found):
    assert Number(50, 500).read("limit", text) == found


@pytest.mark.parametrize("text", ["0", "501", "-1", "1.0", "x", " 1", "٣", "²", "9" * 5000])
def test_what_is_no_such_number_is_refused(text):
    with pytest.raises(UsageError, match=r"`limit` is a number from 1 to 500\."):
        Number(50, 500).read("limit", text)


@pytest.mark.parametrize(("text", "wanted"), [("", False), ("false", False), ("true", True)])
def test_a_yes_is_said_in_one_way(text, wanted):
    assert Truth().read("cascade", text) is wanted
    with pytest.raises(UsageError, match="`cascade` is one of true, false"):
        Truth().read("cascade", "1")


def test_a_text_has_an_end():
    assert Text().read("q", "x" * 500) == "x" * 500
    with pytest.raises(UsageError, match="`q` has at most 500"):
        Text().read("q", "x" * 501)


@pytest.mark.parametrize(
    ("said", "verdict"), [("allow", Verdict.ALLOW), ("deny", Verdict.DENY), ("abort", Verdict.ABORTED)]
)
def test_a_decision_is_a_verdict_and_a_remark(said, verdict):
    words = Words.of(decide)
    assert words.read({"verdict": said}) == {"verdict": verdict}
    assert words.read({"verdict": said, "answer": "yes"}) == {"verdict": verdict, "answer": "yes"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "`verdict`"),
        ({"verdict": "timeout"}, "`verdict`"),
        ({"verdict": "aborted"}, "`verdict`"),
        ({"verdict": True}, "`verdict`"),
        ({"verdict": {}}, "`verdict`"),
        ({"verdict": "allow", "answer": None}, "`answer` is a text"),
        ({"verdict": "allow", "answer": "x" * 10_001}, "at most 10000"),
    ],
)
def test_what_is_no_decision_is_refused(fields, why):
    with pytest.raises(UsageError, match=why):
        Words.of(decide).read(fields)


@pytest.mark.parametrize("given", ["x", HASH.upper(), HASH[1:], HASH + "0", None, 7])
def test_a_hash_is_a_hash(given):
    assert ContentHash().read("content_hash", HASH) == HASH
    assert ContentHash().read("content_hash", "") == ""
    with pytest.raises(UsageError, match="`content_hash`"):
        ContentHash().read("content_hash", given)


def test_files_that_were_shown_have_to_be_named():
    with pytest.raises(UsageError, match="whose audit was shown"):
        ContentHash(needed=True).read("content_hash", "")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("token=abc", "seems to hold a password"),
        ("url=postgres://u:p@h/d", "seems to hold a password"),
        ("a='b", "quoted text"),
        ("word", "is no setting"),
        (["a=b"], "at most 4000"),
        (None, "at most 4000"),
        ("a=" + "x" * 4_000, "at most 4000"),
    ],
)
def test_a_configuration_is_settings_without_passwords(given, why):
    assert Configuration().read("configuration", "a=1 b='two words'") == ("a=1", "b=two words")
    with pytest.raises(UsageError, match=why):
        Configuration().read("configuration", given)


def answer(
    journal: object, run_id: str, *, limit: Annotated[int, Number(7, 9)], q: Annotated[str, Text()] = ""
) -> dict[str, str]:
    return {"run_id": run_id, "of": f"{journal} {limit} {q}"}


def test_what_is_not_said_has_its_default_and_what_nobody_asks_for_is_not_read():
    words = Words.of(answer)
    assert words.taken == {"journal", "run_id", "limit", "q"}
    assert words.read({}) == {"limit": 7}
    assert words.read({"q": "x", "other": "y"}) == {"limit": 7, "q": "x"}


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def page(**words):
    return memory.memory_page(
        words.get("q", ""),
        words.get("k", 50),
        words.get("kind", ""),
        words.get("tag", ""),
        words.get("tier"),
        words.get("before", ""),
    )


def test_nothing_asks_for_the_newest():
    asked = page()
    assert (asked.query.text, asked.query.k, asked.limit, asked.query.tier, asked.query.until) == (
        "",
        50,
        50,
        None,
        None,
    )


def test_words_and_filters_reach_the_query():
    asked = page(q="  the tunnel ", k=7, kind="note", tag="deploy", tier="quarantine")
    assert (asked.query.text, asked.query.k) == ("the tunnel", 7)
    assert (asked.query.types, asked.query.tags, asked.query.tier) == (("note",), ("deploy",), Tier.QUARANTINE)


def test_a_cursor_asks_again_for_its_moment_and_for_as_many_more_as_were_seen_of_it():
    asked = page(k=10, before="2026-03-01T12:00:00.000000Z~3")
    assert (asked.query.until, asked.query.k) == (NOON + timedelta(microseconds=1), 13)
    assert (asked.limit, asked.seen, asked.last) == (10, 3, NOON)


def test_no_store_is_asked_for_more_than_it_tells():
    assert page(k=500, before="2026-03-01T12:00:00.000000Z~999").query.k == 1000


@pytest.mark.parametrize(
    "before", ["x", "2026-03-01T12:00:00.000000Z", "2026-03-01~1", "2026-02-30T12:00:00.000000Z~1"]
)
def test_what_is_no_cursor_is_refused(before):
    with pytest.raises(UsageError, match="`before` is the `next`"):
        page(before=before)
