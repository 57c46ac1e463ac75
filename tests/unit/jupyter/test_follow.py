"""A cell and the run it follows, at the edges of what a run can do."""

import asyncio
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.domain.events import ChildStarted
from kagura_kernel.jupyter import follow as follow_module, slots
from kagura_kernel.jupyter.follow import follow, wait_in_thread
from kagura_kernel.jupyter.slots import Slot
from kagura_kernel.render.blocks import Line
from kagura_kernel.testing.patience import eventually
from kagura_kernel.views.record import LIVE_MIME
from tests.support.plain_page import WIDGET_MIME
from tests.support.told_run import ToldRun


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
        await follow(handle_of(*([story.started()] if began else [])), pages, pytest.fail)
    assert [one for one in pages.shown if one != "live"] == shown


async def test_what_the_runs_below_ask_is_shown_with_the_run_and_nothing_else_of_them(told):
    below, deeper = ToldRun("run-2"), ToldRun("run-3")
    children = {"run-2": below, "run-3": deeper}
    pages = Asked()
    following = asyncio.ensure_future(follow(told, pages, children.__getitem__))
    told.tell(handed_on(told, "run-2"))
    below.tell(below.sample.started(), below.sample.noted("its own"), handed_on(below, "run-3"))
    deeper.tell(deeper.sample.asked("app-3"))
    await eventually(lambda: "app-3" in pages.waiting)
    deeper.tell(deeper.sample.decided("app-3"))
    await eventually(lambda: not pages.waiting)
    told.tell(told.sample.finished())
    await following
    assert [type(item).__name__ for item in pages.items] == ["Part", "Ask"]


class Asked:
    """Remembers which questions wait, and what the run consists of."""

    def __init__(self):
        self.waiting = []
        self.items = []

    def refresh(self, view):
        self.waiting = [ask.request.approval_id for ask in view.pending]

    def finish(self, view):
        self.items = list(view.items)


def handed_on(run, child):
    return ChildStarted(run_id=run.run_id, session_id=run.session_id, at=datetime.now(UTC), child=child)


class Shown:
    """Remembers the last text of every look."""

    def __init__(self):
        self.looks = []
        self.ended = []

    def refresh(self, view):
        self.looks.append(view.items[-1].text if view.items else "")

    def finish(self, view):
        self.ended.append(view.items[-1].text)


@pytest.fixture
def told():
    run = ToldRun()
    return run.tell(run.sample.started(), run.sample.boxed())


async def test_a_display_looks_at_once_then_not_before_its_time_and_shows_the_last_state(told, monkeypatch):
    monkeypatch.setattr(follow_module, "TICK_SECONDS", 3600.0)
    shown = Shown()
    following = asyncio.ensure_future(follow(told, shown, pytest.fail, foreground=False))
    await eventually(lambda: shown.looks)
    for number in range(5000):
        told.tell(told.sample.noted(str(number)))
    await asyncio.sleep(0)
    told.tell(told.sample.finished())
    await following
    assert shown.looks == [""]
    assert shown.ended == ["4999"]


async def test_what_arrives_wakes_a_display_that_nobody_waits_for(told, monkeypatch):
    monkeypatch.setattr(follow_module, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(follow_module, "IDLE_SECONDS", 3600.0)
    shown = Shown()
    following = asyncio.ensure_future(follow(told, shown, pytest.fail, foreground=False))
    await eventually(lambda: shown.looks)
    for number in range(3):
        # As the engine does it: from another thread.
        await asyncio.to_thread(lambda number=number: told.tell(told.sample.noted(str(number))))
        await eventually(lambda number=number: shown.looks[-1] == str(number))
    quiet = len(shown.looks)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(shown.looks) == quiet
    told.tell(told.sample.finished())
    await following


STILL = ({"text/plain": "as it began", "text/html": "<p>as it began</p>"}, {"kagura": {"run_id": "run-1"}})


def later(text="later"):
    """A finished form."""
    return {"text/plain": text, "text/html": f"<p>{text}</p>"}, {}


class Handle:
    """Where an output went."""

    def __init__(self, published, places):
        self._published = published
        self._places = places
        self._place = max(places, default=0) + 1
        places.append(self._place)

    def update(self, data, **how):
        self._published.append((data, how["metadata"]))
        self._places.append(self._place)


@pytest.fixture
def places():
    """Which output of the cell each one was published to, the first one 1."""
    return []


@pytest.fixture
def published(monkeypatch, places):
    """Every output that was published, as data and metadata."""
    found = []

    def display(data, **how):
        found.append((data, how["metadata"]))
        return Handle(found, places)

    monkeypatch.setattr(slots, "_display", display)
    return found


@pytest.fixture
def slot(published):  # noqa: ARG001 - what it publishes goes there
    """One with a live card that has changed since it was opened."""
    found = Slot()
    found.open("Agent run", "running", {"head": (Line(("x",)),)}, lambda _content: None, STILL)
    found.show({"head": (Line(("y",)),)})
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
    slot.show({"head": (Line(("z",)),)})
    slot.keep(lambda: later("too soon"))
    assert len(published) == 2
    slot.keep(lambda: later("decided"), at_once=True)
    assert published[2][0]["text/plain"] == "decided"


def test_once_it_is_over_only_the_finished_form_is_left(slot, published):
    hosted(slot)
    slot.write(later("over"))
    slot.keep(later, at_once=True)
    assert published[1:] == [later("over")]


@pytest.fixture
def staying(published):  # noqa: ARG001 - what it publishes goes there
    """A slot that stays, hosted, of which nothing has changed since it was opened."""
    found = Slot(stays=True)
    found.open("Agent run", "running", {"head": (Line(("x",)),)}, lambda _content: None, STILL)
    hosted(found)
    return found


def hears(slot, act):
    slot._card._hear(None, {"act": act}, [])


def test_a_card_whose_output_was_cleared_comes_back_and_is_finished_where_it_is_seen(staying, published, places):
    staying.keep(later)
    hears(staying, "cleared")
    staying.keep(later)
    staying.write(later("over"))
    assert places == [1, 2, 2]
    assert published[-1] == later("over")


def test_a_card_that_was_cleared_on_one_page_stays_where_another_one_shows_it(staying, places):
    hears(staying, "cleared")
    hears(staying, "seen")
    staying.write(later("over"))
    assert places == [1, 1]


def test_what_was_cleared_just_before_its_end_is_put_there_once_more(staying, places):
    hears(staying, "cleared")
    staying.write(later("over"))
    assert places == [1, 2]


def test_a_card_that_is_not_to_stay_is_left_cleared(slot, places):
    hosted(slot)
    hears(slot, "cleared")
    slot.write(later("over"))
    assert places == [1, 1]


def test_what_is_to_be_kept_at_once_is_kept_as_soon_as_the_front_end_can_take_it(slot, published):
    slot.keep(later, at_once=True)
    slot.keep(lambda: later("latest"), at_once=True)
    assert len(published) == 1
    hosted(slot)
    [_, (data, _)] = published
    assert data["text/plain"] == "latest"
    hosted(slot)
    assert len(published) == 2


@pytest.mark.real_clock
def test_an_interrupt_that_comes_while_the_thread_starts_ends_what_it_does(monkeypatch):
    start, works, said = threading.Thread.start, threading.Event(), []

    def interrupted(thread):
        start(thread)
        assert works.wait(10)
        raise KeyboardInterrupt

    async def work():
        works.set()
        try:
            await asyncio.sleep(60)
        finally:
            said.append("stopped")

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(asyncio.CancelledError):
        wait_in_thread(work(), "a cell")
    assert said == ["stopped"]
