"""A cell and the run it follows, at the edges of what a run can do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.jupyter.follow import follow


class Pages:
    """Remembers what it was told to show."""

    def __init__(self):
        self.shown = []

    def refresh(self, view):
        if view.started is not None:
            self.shown.append("live")

    def finish(self, view):
        self.shown.append(view.finished.status if view.finished else "unfinished")


def handle_of(*events):
    """A run that tells these events and then cannot keep its record."""

    def subscribe(listener):
        for event in events:
            listener(event)
        return lambda: None

    async def wait():
        raise JournalUnwritable("/journal", "disk full")

    return SimpleNamespace(run_id="run-1", subscribe=subscribe, wait=wait)


@pytest.mark.parametrize(("began", "shown"), [(False, []), (True, ["lost"])])
async def test_a_run_whose_journal_cannot_be_written_leaves_no_card_that_starts_for_ever(story, began, shown):
    pages = Pages()
    with pytest.raises(JournalUnwritable):
        await follow(handle_of(*([story.started()] if began else [])), pages)
    assert [one for one in pages.shown if one != "live"] == shown
