"""Places on cards: which were refused, which were not reached and why, and how they are spelled."""

from types import SimpleNamespace

import pytest

from kagura_kernel.cockpit.lines.parser import unquoted, words_of
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.domain.visible import shown_place, shown_word
from kagura_kernel.jupyter.cell import filled, filled_line, wants_fmt
from kagura_kernel.jupyter.surface import place_of
from kagura_kernel.views.card import run_text
from kagura_kernel.views.network import SHOWN_REFUSALS
from kagura_kernel.views.record import RUN_MIME, run_bundle, run_html
from tests.support.card_page import Page, live_parts
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


def shell_of(metadata=None, connection_file="/run/kernel-4a1b-22.json"):
    parent = {"header": {}, "content": {}, "metadata": metadata or {}}
    app = SimpleNamespace(connection_file=connection_file)
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda _channel: parent, parent=app))


@pytest.mark.parametrize("name", ["cellId", "cell_id"])
def test_a_cell_knows_its_notebook_its_kernel_and_its_id(monkeypatch, name):
    monkeypatch.setenv("JPY_SESSION_NAME", "work/sales.ipynb")
    assert place_of(shell_of({name: "ab12"})) == CellPlace("work/sales.ipynb", "4a1b-22", "ab12")


def test_the_notebook_is_known_where_the_editor_alone_tells_it(monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    shell = shell_of()
    shell.user_ns = {"__vsc_ipynb_file__": "/books/sales.ipynb"}
    assert place_of(shell).notebook == "/books/sales.ipynb"


@pytest.mark.parametrize("file", ["", "/run/mine.json", "/run/kernel-1.txt"])
def test_what_nobody_told_stays_empty(monkeypatch, file):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert place_of(shell_of(connection_file=file)) == CellPlace()
    assert place_of(SimpleNamespace()) == CellPlace()


@pytest.mark.parametrize(
    ("line", "asks"),
    [("--fmt", True), ("--new --fmt", True), ("", False), ("--session 'a --fmt b'", False), ("--fmt 'open", True)],
)
def test_filling_in_has_to_be_asked_for(line, asks):
    assert wants_fmt(line) is asks


def test_expressions_are_filled_in_and_doubled_braces_and_dollars_are_text():
    assert (
        filled("{n} of {len(xs)}: {xs[0:1]}, {{n}}, $n, $5", {"n": 2, "xs": [7]}, "%%kagura")
        == "2 of 1: [7], {n}, $n, $5"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{nothing}", "no variable 'nothing'"),
        ("{1 / 0}", "ZeroDivisionError"),
        ("an open {", "ValueError"),
        ("{x.secret}", "AttributeError"),
        ("{}", "braces"),
    ],
)
def test_what_cannot_be_filled_in_is_told_and_not_kept(text, words):
    with pytest.raises(UsageError, match="--fmt") as refused:
        filled(text, {"x": 1}, "%%kagura")
    assert words in refused.value.message
    assert "{{ or }}" in refused.value.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--fmt --session {name}", ["--fmt", "--session", "two words --net *"]),
        ("--fmt --session 'of {name}'", ["--fmt", "--session", "of two words --net *"]),
        ("--fmt -i x={xs[0]}", ["--fmt", "-i", "x=7"]),
        ("--fmt -i {quoted}=df['a']", ["--fmt", "-i", "it's=df['a']"]),
        ("--fmt -i 'x=d[{xs[0] + 1}]'", ["--fmt", "-i", "x=d[8]"]),
        ("--fmt --session {{plain}}", ["--fmt", "--session", "{plain}"]),
    ],
)
def test_a_value_on_the_line_of_options_stays_inside_its_word(line, words):
    variables = {"name": "two words --net *", "xs": [7], "quoted": "it's"}
    made = filled_line(line, variables, "%%kagura")
    assert [unquoted(word.raw) for word in words_of(made)] == words


@pytest.mark.parametrize("line", ["--fmt {x}", "--fmt --session a {x}", "--fmt '{x}'"])
def test_a_value_never_becomes_an_option(line):
    with pytest.raises(UsageError, match="begins with a dash"):
        filled_line(line, {"x": "--writable-root"}, "%%kagura")
