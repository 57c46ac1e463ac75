"""A glance tells whether anybody has written since, cheaply; on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.journal.mailbox import ANYWAY_SECONDS, LONGEST_PAUSE, PAUSE_SECONDS, Glance
from kagura_kernel.journal.place import is_url
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import wait_until
from tests.support.sample_run import SampleRun

RUN = SampleRun()


def look(glance: Glance) -> bool:
    """Whether a look was worth it; it is over now."""
    news = glance.news()
    if news is not None:
        glance.seen(news)
    return news is not None


def settled(glance: Glance) -> None:
    """Return when there is nothing new: a server counts its own housekeeping as well."""
    wait_until(lambda: not look(glance))


@pytest.fixture
def still(tmp_path: Path) -> Iterator[tuple[Journal, FakeClock]]:
    """A journal in which time stands still."""
    clock = FakeClock()
    journal = Journal.open(tmp_path / "still", clock=clock)
    yield journal, clock
    journal.close()


def test_what_another_process_writes_is_news_once(open_journal, journal):
    glance = Glance(open_journal())
    settled(glance)
    journal.append(RUN.started())
    assert look(glance)
    settled(glance)


def test_what_the_same_journal_writes_is_news_too(journal):
    glance = Glance(journal)
    settled(glance)
    journal.append(RUN.started())
    assert look(glance)


def test_what_is_written_during_a_look_is_news_to_the_next_one(open_journal, journal):
    glance = Glance(open_journal())
    news = glance.news()
    assert news is not None
    journal.append(RUN.started())
    glance.seen(news)
    assert look(glance)


def test_a_look_that_was_not_finished_is_made_again(journal):
    glance = Glance(journal)
    assert glance.news() is not None
    assert glance.news() is not None


def test_whoever_wants_something_else_now_has_news_even_in_the_middle_of_a_look(still):
    glance = Glance(still[0])
    news = glance.news()
    assert news is not None
    glance.forget()
    glance.seen(news)
    assert look(glance)
    assert not look(glance)


def test_now_and_then_a_look_is_made_whatever_the_journal_says(still):
    journal, clock = still
    glance = Glance(journal)
    assert look(glance)
    assert not look(glance)
    asyncio.run(clock.advance(ANYWAY_SECONDS))
    assert look(glance)
    assert not look(glance)


def test_several_threads_may_give_glances_to_one_journal(open_journal, journal):
    shared = open_journal()

    def many(number: int) -> int:
        glance = Glance(shared)
        return sum(look(glance) for _ in range(200 + number))

    with ThreadPoolExecutor(4) as threads:
        counts = [threads.submit(many, number) for number in range(4)]
        for _ in range(20):
            journal.append(RUN.noted())
        assert all(count.result() >= 1 for count in counts)


def test_a_journal_that_was_closed_says_so(open_journal):
    journal = open_journal()
    glance = Glance(journal)
    assert look(glance)
    journal.close()
    with pytest.raises(JournalUnreadable):
        glance.news()


def test_a_server_that_is_far_away_is_asked_less_often_and_still_twice_a_second(journal, where, monkeypatch):
    took = [0.0]
    # The time that passes is that of the glances alone.
    monkeypatch.setattr("kagura_kernel.journal.mailbox.time.perf_counter", lambda: took[0])
    mark = journal.mark

    def far(*seconds: float) -> float:
        ways = iter(seconds)

        def slow() -> str:
            took[0] += next(ways)
            return mark()

        monkeypatch.setattr(journal, "mark", slow)
        glance = Glance(journal)
        for _ in seconds:
            glance.news()
        return glance.pause

    is_server = is_url(where)
    assert far(0, 0, 0, 0, 0, 0, 0, 0) == PAUSE_SECONDS
    assert far(3, 3, 3) == PAUSE_SECONDS
    assert far(3, 0.01, 3, 3, 3, 3, 3, 3) == pytest.approx(0.2 if is_server else PAUSE_SECONDS)
    assert far(3, 3, 3, 3, 3, 3, 3, 3) == (LONGEST_PAUSE if is_server else PAUSE_SECONDS)
