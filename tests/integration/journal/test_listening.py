"""A journal tells those who listen, after a row is stored and never for one that is not."""

from __future__ import annotations

import pytest

from kagura_kernel.domain.events import Event
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()


def test_an_event_is_told_once_it_is_stored_to_every_listener_in_order(journal):
    heard: list[tuple[str, str, int]] = []
    for name in ("one", "two"):
        journal.listen(lambda event, name=name: heard.append((name, event.kind, journal.last_seq())))
    journal.append(RUN.started())
    journal.append(RUN.noted())
    assert heard == [
        ("one", "run.started", 1),
        ("two", "run.started", 1),
        ("one", "noted", 2),
        ("two", "noted", 2),
    ]


def begin_and_fail(journal: Journal) -> None:
    with journal.writing() as writing:
        writing.append(RUN.started())
        raise RuntimeError("no")


def test_what_is_rolled_back_is_not_told(journal):
    heard: list[Event] = []
    journal.listen(heard.append)
    with pytest.raises(RuntimeError, match="no"):
        begin_and_fail(journal)
    assert heard == []
    with journal.writing() as writing:
        writing.append(RUN.started())
        writing.append(RUN.noted())
        assert heard == []
    assert [event.kind for event in heard] == ["run.started", "noted"]


def test_rows_of_other_processes_are_not_told(journal, open_journal):
    heard: list[Event] = []
    journal.listen(heard.append)
    open_journal().append(RUN.started())
    assert heard == []
