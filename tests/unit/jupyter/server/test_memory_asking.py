"""What a request asks of the memory is understood, or refused with a sentence that names what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.memory import LESSON, Tier
from kagura_kernel.jupyter.server import memory_asking

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def page(**words):
    return memory_asking.memory_page(*(words.get(name, "") for name in ("q", "k", "kind", "tag", "tier", "before")))


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
    asked = page(q="  the tunnel ", k="7", kind="note", tag="deploy", tier="quarantine")
    assert (asked.query.text, asked.query.k) == ("the tunnel", 7)
    assert (asked.query.types, asked.query.tags, asked.query.tier) == (("note",), ("deploy",), Tier.QUARANTINE)


def test_a_cursor_asks_again_for_its_moment_and_for_as_many_more_as_were_seen_of_it():
    asked = page(k="10", before="2026-03-01T12:00:00.000000Z~3")
    assert (asked.query.until, asked.query.k) == (NOON + timedelta(microseconds=1), 13)
    assert (asked.limit, asked.seen, asked.last) == (10, 3, NOON)


def test_no_store_is_asked_for_more_than_it_tells():
    assert page(k="500", before="2026-03-01T12:00:00.000000Z~999").query.k == 1000


@pytest.mark.parametrize(
    "before", ["x", "2026-03-01T12:00:00.000000Z", "2026-03-01~1", "2026-02-30T12:00:00.000000Z~1"]
)
def test_what_is_no_cursor_is_refused(before):
    with pytest.raises(UsageError, match="`before` is the `next`"):
        page(before=before)


def test_lessons_are_one_type():
    asked = memory_asking.lessons("make", "")
    assert (asked.text, asked.types, asked.k) == ("make", (LESSON,), 50)


@pytest.mark.parametrize(("text", "wanted"), [("", False), ("false", False), ("true", True)])
def test_a_yes_is_said_in_one_way(text, wanted):
    assert memory_asking.truth("cascade", text) is wanted
    with pytest.raises(UsageError, match="`cascade` is one of true, false"):
        memory_asking.truth("cascade", "1")
