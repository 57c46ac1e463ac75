"""Cards of ipywidgets alone: what their buttons send, what stays when they are drawn anew, and when they are shown."""

from types import SimpleNamespace

import ipywidgets
import pytest

from kagura_kernel.jupyter import slots
from kagura_kernel.jupyter.slots import Slot
from kagura_kernel.jupyter.widgets import plain_card
from kagura_kernel.jupyter.widgets.plain_card import PlainCard
from kagura_kernel.render import blocks as ui
from kagura_kernel.views.approvals import ask_block, many_block
from kagura_kernel.views.messages import ABOUT
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.record import LIVE_MIME
from tests.support.plain_page import WIDGET_MIME


class Page:
    """A card and the hand of a person."""

    def __init__(self, **parts):
        self.sent = []
        self.card = PlainCard(parts, {}, self.sent.append)

    def all(self, kind, below=None):
        widget = below or self.card.box
        found = [widget] if isinstance(widget, kind) else []
        return found + [one for child in getattr(widget, "children", ()) for one in self.all(kind, child)]

    def button(self, word):
        [found] = [one for one in self.all(ipywidgets.Button) if one.description == word]
        return found

    def press(self, word):
        self.button(word).click()

    @property
    def text(self):
        return "\n".join(one.value for kind in (ipywidgets.HTML, ipywidgets.Label) for one in self.all(kind)[1:])


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """No button rests because its card has just moved, but where that is what a test is about."""
    monkeypatch.setattr(plain_card, "SETTLE_SECONDS", 0.0)


def question(story, **fields):
    return (ask_block(Ask("i0", story.asks(**fields)), (), None, can_answer=True),)


def test_a_button_sends_what_that_of_a_live_card_sends_and_rests_until_its_answer_is_there(story):
    page = Page(i0=question(story, options=("this call", "this run", "never")))
    page.press("Allow for this run")
    page.press("Deny")
    about = {"id": "app-1", "path": None}
    assert page.sent == [{"act": "allow", "answer": "this run", **about}]
    page.card.tell("Somebody else was faster.", "app-1")
    assert "Somebody else was faster." in page.text
    page.press("Never in this session")
    assert page.sent[1:] == [{"act": "deny", "answer": "never", **about}]


def test_what_a_plan_may_cost_is_sent_along(story):
    plan = question(story, subject="plan", arguments={"budget_usd": 0.5, "lessons": 2})
    page = Page(i0=plan)
    [field] = page.all(ipywidgets.Text)
    assert (field.description, field.value) == ("Budget, USD", "0.50")
    field.value = ""
    page.press("Begin with its lessons")
    assert page.sent == [{"act": "allow", "id": "app-1", "path": None, "answer": "no budget with lessons"}]


@pytest.mark.parametrize(("usd", "shown"), [(2, "2.00"), (0.125, "0.125"), (1 / 3, "0.3333"), (0.00005, "0.00005")])
def test_what_a_plan_may_cost_stands_there_with_all_that_matters(story, usd, shown):
    [field] = Page(i0=question(story, subject="plan", arguments={"budget_usd": usd})).all(ipywidgets.Text)
    assert field.value == shown


def test_an_empty_answer_is_not_sent(story):
    page = Page(i0=question(story, subject="question", title="Which day?"))
    page.press("Send")
    assert page.sent == []
    page.all(ipywidgets.Text)[0].value = "Monday"
    page.press("Send")
    assert page.sent == [{"act": "answer", "id": "app-1", "path": None, "answer": "Monday"}]


def test_one_word_for_several_names_each_of_them(story):
    waiting = [Ask(f"i{number}", story.asks(approval_id=f"app-{number}", subject="network")) for number in range(2)]
    page = Page(many=(many_block(waiting, may_allow=True),))
    # Saying yes to all takes a second click.
    [fold] = page.all(ipywidgets.Accordion)
    assert fold.selected_index is None
    page.press("Yes, allow these 2 for this run")
    assert page.sent == [{"act": "allow-all", "id": "", "path": None, "ids": ["app-0", "app-1"]}]


def test_what_has_just_appeared_is_not_what_a_click_was_meant_for(story, monkeypatch):
    monkeypatch.setattr(plain_card, "SETTLE_SECONDS", 60.0)
    page = Page(i0=question(story))
    assert page.button("Allow once").disabled
    page.press("Allow once")
    assert page.sent == []
    # A no does no harm.
    page.press("Deny")
    assert [content["act"] for content in page.sent] == ["deny"]


def test_a_part_that_is_drawn_anew_keeps_its_buttons_and_what_was_typed():
    def form(about, word="Enable"):
        field = ui.Field("folder", "kg-folder", (about,))
        secret = ui.Field("key", "kg-key", ("…",), is_secret=True)
        return (ui.Question((field, secret, ui.Line((ui.Button(word, "use"),)), ui.Told()), "Form", "form"),)

    page = Page(form=form("Where?"))
    before = page.button("Enable")
    page.all(ipywidgets.Text)[0].value = "/data"
    [secret] = page.all(ipywidgets.Password)
    secret.value = "hush"
    assert secret.value == ""
    page.card.show({"form": form("It is not there.")})
    assert page.button("Enable") is before
    before.click()
    assert page.sent[0]["fields"] == {"folder": "/data", "key": "hush"}
    page.card.show({"form": form("Gone.", "Anew")})
    assert before.comm is None
    page.card.close()
    assert secret.comm is None


def test_what_is_open_opens_with_its_buttons_and_stays_as_somebody_has_left_it():
    def file(more=""):
        inside = (ui.Line((ui.Button("Keep mine", "discard"), more)),)
        return (ui.Fold(("a.txt",), inside, "file:a", is_open=True), ui.Fold(("b.txt",), inside, "file:b"))

    page = Page(files=file())
    opened, closed = page.all(ipywidgets.Accordion)
    assert (opened.selected_index, closed.selected_index) == (0, None)
    opened.selected_index = None
    page.card.show({"files": file("anew")})
    assert page.all(ipywidgets.Accordion)[0] is opened
    assert opened.selected_index is None


def test_a_time_that_begins_anew_does_so_and_a_lease_shows_how_much_of_its_longest_is_left():
    count = (ui.Countdown(300.0, 300.0, "no answer is a no"),)
    lease = ui.Group((ui.Line((ui.Clock(600.0, "expires", "10:00"),)),), data={"lease": "lea-1"})
    page = Page()
    page.card.show({"time": count, "leases": (lease,)}, {"time": 100.0, "leases": 60.0})
    assert "3:20 left, no answer is a no" in page.text
    assert [(one.value, one.max) for one in page.all(ipywidgets.IntProgress)] == [(540, 600), (200, 300)]
    page.card.show({"time": count})
    assert "5:00 left" in page.text
    again = ui.Group((ui.Line((ui.Clock(30.0, "expires", "0:30"), ui.Button("Extend", "extend"))),), data=lease.data)
    page.card.show({"leases": (again,)})
    assert (page.all(ipywidgets.IntProgress)[0].value, page.all(ipywidgets.IntProgress)[0].max) == (30, 600)


def test_odd_characters_of_others_are_visible_in_words_and_buttons():
    page = Page(all=(ui.Line((ui.Button("yes\u202eon", "open"), ui.code("<b>x\u202e</b>"))),))
    assert "\u202e" not in page.all(ipywidgets.Button)[0].description + page.text
    assert "&lt;b&gt;" in page.text


def test_what_was_said_is_taken_out_of_its_line():
    line = ui.Line((ui.Entry("Say something"), ui.Button("Send", "say")))
    page = Page(say=(ui.Group((line, ui.Told()), "say", data={"block": ABOUT}),))
    page.all(ipywidgets.Text)[0].value = "Hurry."
    page.press("Send")
    assert page.sent[0]["answer"] == "Hurry."
    assert page.all(ipywidgets.Text)[0].value == ""


@pytest.fixture
def published(monkeypatch):
    """Every output that was published, by a page that has said nothing of itself yet."""
    found = []

    def display(data, **_how):
        found.append(data)
        return SimpleNamespace(update=lambda data, **_how: found.append(data))

    page = slots._FrontEnd()
    monkeypatch.setattr(slots, "_display", display)
    monkeypatch.setattr(slots, "_front_end", lambda: page)
    return found


def opened(pressed=lambda _content: None):
    slot = Slot()
    slot.open("Agent run", "running", {"head": (ui.Line((ui.Button("Stop", "stop"),)),)}, pressed)
    return slot


def test_where_nobody_draws_the_live_card_one_of_ipywidgets_takes_its_place_until_somebody_does(published, monkeypatch):
    monkeypatch.setattr(slots, "DRAWN_SECONDS", 0.01)
    slot = opened()
    slot._patience.join()
    assert [LIVE_MIME in data for data in published] == [True, False]
    assert published[1][WIDGET_MIME] != published[0][WIDGET_MIME]
    assert not slot.heard
    # The next one of this page need not be waited for.
    second = opened()
    assert [LIVE_MIME in data for data in published[2:]] == [False]
    second._plain.box._view_count = 1
    assert (second.heard, second.unseen_for()) == (True, 0.0)
    slot._card._hear(None, {"act": "sync"}, [])
    assert published[-1][WIDGET_MIME] == published[0][WIDGET_MIME]
    third = opened()
    assert third._patience is None
    assert LIVE_MIME in published[-1]
    for one in (slot, second, third):
        one.write(({"text/plain": "over"}, {}))
    assert published[-1] == {"text/plain": "over"}


@pytest.mark.usefixtures("published")
def test_a_page_that_draws_the_live_card_in_time_sees_no_other():
    slot = opened()
    slot._card._hear(None, {"act": "sync"}, [])
    slot._draw_plainly(lambda _content: None)
    assert slot._plain is None
    slot.write(({}, {}))


@pytest.mark.usefixtures("published")
def test_what_a_page_sends_arrives_in_whole_letters():
    arrived = []
    slot = opened(arrived.append)
    slot._card._hear(None, {"act": "deny", "id": "app-\ud83d", "ids": ["\ud800"], "answer": "no 😀"}, [])
    deep = []
    for _ in range(5000):
        deep = [deep]
    slot._card._hear(None, {"act": "deny", "id": deep}, [])
    assert arrived == [{"act": "deny", "id": "app-\ufffd", "ids": ["\ufffd"], "answer": "no 😀"}]
