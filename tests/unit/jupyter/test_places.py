"""Places on cards: which were refused, which were not reached and why, and how they are spelled."""

from __future__ import annotations

import pytest

from kagura_kernel.domain.visible import shown_place, shown_word
from kagura_kernel.jupyter.live_run import live_parts
from kagura_kernel.views.card import run_text
from kagura_kernel.views.network import SHOWN_REFUSALS
from kagura_kernel.views.record import RUN_MIME, run_bundle, run_html
from tests.support.card_page import Page
from tests.support.sample_run import SampleRun

RUN = SampleRun()


def live(view, part: str) -> Page:
    return Page(live_parts(view).get(part, ""))


def missed(host: str = "down.example", number: int = 1, **end):
    said = {"ended": "unreachable", "bytes_in": 0, "bytes_out": 0} | end
    return RUN.reached(host, number, **said)


def test_a_connection_that_never_stood_is_not_reached_and_says_why(view_of):
    detail = "down.example:443 cannot be reached: connection refused."
    view = view_of(RUN.started(), *RUN.reached(), *missed(number=2, detail=detail), RUN.finished())
    page = live(view, "net")
    assert "Not reached down.example:443 (cannot be reached: connection refused)" in page.text
    assert "Connected to 1 place" in page.text
    assert "Refused" not in page.text
    assert "! not reached: down.example:443 (no answer)" in run_text(view)
    assert "= connected to pypi.org:443" in run_text(view).splitlines()
    record = run_bundle(view)[0][RUN_MIME]["egress"]
    assert record["not_reached"] == [{"host": "down.example", "port": 443, "why": "no answer"}]
    assert [one["host"] for one in record["reached"]] == ["pypi.org"]


def test_a_connection_that_was_reset_before_anything_came_never_stood(view_of):
    detail = "The other side broke the connection off."
    page = live(view_of(RUN.started(), *missed(ended="reset", detail=detail)), "net")
    assert "Not reached down.example:443 (The other side broke the connection off)" in page.text
    assert "Connected to" not in page.text


def test_a_place_that_stood_once_was_reached_whatever_came_before(view_of):
    page = live(view_of(RUN.started(), *missed("a.example"), *RUN.reached("a.example", 2)), "net")
    assert "Connected to 1 place" in page.text
    assert "Not reached" not in page.text
    assert "no answer, done" in page.text


@pytest.mark.parametrize(
    ("why", "word", "shown", "short"),
    [
        (
            "could not be looked up: name or service not known",
            "Not reached",
            "could not be looked up: name or service not known",
            "its name leads nowhere",
        ),
        ("has no address", "Not reached", "has no address", "its name leads nowhere"),
        (
            "leads to no public address (10.0.0.7 is a private network)",
            "Refused",
            "leads to no public address (10.0.0.7 is a private network)",
            "no public address",
        ),
        (
            "is not granted and 8 questions are open",
            "Refused",
            "not asked: 8 questions were open already",
            "not asked: 8 questions were open already",
        ),
        (
            "is granted, but the run has used up its bytes",
            "Refused",
            "is granted, but the run has used up its bytes",
            "the run has used up its bytes",
        ),
    ],
)
def test_what_the_box_did_not_get_to_says_why(view_of, why, word, shown, short):
    view = view_of(RUN.started(), RUN.refused("a.example", reason=f"a.example:443 {why}."), RUN.finished())
    assert f"{word} a.example:443 ({shown})" in live(view, "net").text
    assert f"! {word.lower()}: a.example:443 ({short})" in run_text(view)


def test_many_places_that_were_not_reached_are_a_few_rows_and_a_number(view_of):
    events = [event for number in range(SHOWN_REFUSALS + 3) for event in missed(f"h{number}.example", number)]
    view = view_of(RUN.started(), *events)
    assert live(view, "net").text.count("Not reached") == SHOWN_REFUSALS
    assert "… and 3 more places not reached." in Page(run_html(view)).text
    assert "! … and 3 more places not reached" in run_text(view)


BOOKS = "xn--bcher-kva.example"
BOTH = "bücher.example (xn--bcher-kva.example:443)"


def test_an_international_host_is_shown_in_its_letters_and_in_the_spelling_that_counts(view_of):
    granted = RUN.granted(egress=("bücher.example", "xn--bcher-kva.example:8443", "python-packages"))
    events = [RUN.started(), granted, RUN.egress_asked(BOOKS), RUN.refused(BOOKS, times=2), *RUN.reached(BOOKS)]
    view = view_of(*events)
    parts = live_parts(view)
    head = Page(parts["head"]).text
    assert "bücher.example (xn--bcher-kva.example), bücher.example (xn--bcher-kva.example:8443)" in head
    assert BOTH in Page(parts["i0"]).text
    assert f"Refused {BOTH}" in Page(parts["net"]).text
    assert Page(parts["net"]).text.count(BOTH) == 2
    assert f"--net {BOOKS}" in Page(parts["net"]).text
    text = run_text(view)
    assert f"? May the box connect to {BOTH}?" in text
    assert f"= connected to {BOTH}" in text


@pytest.mark.parametrize(
    "host", ["example.org", "xn--a.example", "xn--4dbrk0ce.example", "198.51.100.7", "xn--google-.example"]
)
def test_a_host_whose_letters_would_mislead_is_shown_as_it_is(host):
    assert shown_place(host, 443) == f"{host}:443"
    assert shown_word(host) == host


def test_a_host_given_in_its_letters_is_shown_in_both_spellings_too():
    assert shown_place("g\u0966\u0966gle.com", 443) == "g\u0966\u0966gle.com (xn--ggle-qkja.com:443)"
