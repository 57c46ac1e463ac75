"""What a request asks of the memory is understood, or refused with a sentence that names what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.memory import Tier
from kagura_kernel.jupyter.server import memory

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
