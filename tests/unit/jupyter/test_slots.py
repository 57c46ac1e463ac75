"""A live card's place in a notebook's output, and the finished form that is kept beside it for the file."""

from __future__ import annotations

import pytest

from kagura_kernel.jupyter import slots
from kagura_kernel.jupyter.slots import LIVE_MIME, WIDGET_MIME, Slot

STILL = ({"text/plain": "as it began", "text/html": "<p>as it began</p>"}, {"kagura": {"run_id": "run-1"}})


def later(text="later"):
    """A finished form."""
    return {"text/plain": text, "text/html": f"<p>{text}</p>"}, {}


class Handle:
    """Where an output went."""

    def __init__(self, published):
        self._published = published

    def update(self, data, **how):
        self._published.append((data, how["metadata"]))


@pytest.fixture
def published(monkeypatch):
    """Every output that was published, as data and metadata."""
    found = []

    def display(data, **how):
        found.append((data, how["metadata"]))
        return Handle(found)

    monkeypatch.setattr(slots, "_display", display)
    return found


@pytest.fixture
def slot(published):  # noqa: ARG001 - what it publishes goes there
    """One with a live card that has changed since it was opened."""
    found = Slot()
    found.open("Agent run", "running", {"head": "x"}, lambda _content: None, STILL)
    found.show({"head": "y"})
    return found


def hosted(slot):
    slot._card._hear(None, {"act": "hosted"}, [])


@pytest.mark.usefixtures("slot")
def test_a_live_card_is_published_together_with_its_finished_form(published):
    [(data, metadata)] = published
    assert {WIDGET_MIME, LIVE_MIME} <= set(data)
    assert (data["text/plain"], data["text/html"]) == ("as it began", "<p>as it began</p>")
    assert metadata["kagura"] == {"run_id": "run-1"}


def test_a_front_end_that_would_draw_the_card_anew_is_sent_nothing(slot, published):
    slot.keep(later, at_once=True)
    assert len(published) == 1


def test_the_finished_form_is_kept_as_it_changes_with_the_same_card_beside_it(slot, published):
    hosted(slot)
    slot.keep(later)
    assert published[1][0]["text/html"] == "<p>later</p>"
    assert published[1][0][WIDGET_MIME] == published[0][0][WIDGET_MIME]
    # Nothing has changed since.
    slot.keep(later, at_once=True)
    assert len(published) == 2


def test_it_is_kept_now_and_then_and_at_once_where_that_is_asked_for(slot, published):
    hosted(slot)
    slot.keep(later)
    slot.show({"head": "z"})
    slot.keep(lambda: later("too soon"))
    assert len(published) == 2
    slot.keep(lambda: later("decided"), at_once=True)
    assert published[2][0]["text/plain"] == "decided"


def test_once_it_is_over_only_the_finished_form_is_left(slot, published):
    hosted(slot)
    slot.write(later("over"))
    slot.keep(later, at_once=True)
    assert published[1:] == [later("over")]


def test_what_is_to_be_kept_at_once_is_kept_as_soon_as_the_front_end_can_take_it(slot, published):
    slot.keep(later, at_once=True)
    slot.keep(lambda: later("latest"), at_once=True)
    assert len(published) == 1
    hosted(slot)
    [_, (data, _)] = published
    assert data["text/plain"] == "latest"
    hosted(slot)
    assert len(published) == 2
