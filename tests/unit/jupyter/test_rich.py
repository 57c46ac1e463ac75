"""HTML of a box: what is left of it can only be read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.render.foreign import HTML_CHARACTERS, HTML_TEXT, IMAGES, TABLE_ROWS, rich_html
from tests.support.card_page import Page
from tests.support.effort import examples
from tests.support.gallery import FRAME
from tests.support.hostile import HOSTILE_HTML, PIXEL

OURS = {"kg-sideways", "kg-heading", "kg-leads", "kg-soft", "kg-picture", "kg-pre"}
ATTRIBUTES = {
    *("class", "href", "target", "rel", "src", "alt", "width", "height", "decoding", "colspan", "rowspan", "start"),
    *("role", "aria-label", "tabindex"),
}


def judge(html: str) -> Page:
    """The page that it is, once everything on it was found harmless."""
    page = Page(html)
    assert not page.open
    assert set(page.tags) <= set(
        "p br hr b strong i em u s del ins mark small sub sup code pre kbd samp var abbr q cite blockquote span div a "
        "img ul ol li dl dt dd table caption thead tbody tfoot tr th td".split()
    )
    for name, value in page.attributes:
        assert name in ATTRIBUTES
        if name == "class":
            assert set(value.split()) <= OURS
        if name == "src":
            assert value.startswith("data:image/")
        if name == "href":
            assert re.match("https?://", value)
    return page


@pytest.mark.parametrize("sample", HOSTILE_HTML)
def test_nothing_that_could_act_is_left(sample):
    judge(rich_html(sample)[0])


@examples(30, 150, "kagura_kernel/jupyter/")
@given(st.lists(st.sampled_from(HOSTILE_HTML) | st.text(max_size=12), max_size=6).map("".join))
def test_nothing_that_could_act_is_left_of_any_mixture(text):
    judge(rich_html(text)[0])


def test_a_data_frame_is_a_table_that_can_be_scrolled_by_keyboard():
    html, left_out = rich_html(FRAME)
    page = judge(html)
    assert page.tags.count("td") == 12
    assert "4 rows × 3 columns" in page.text
    assert "vertical-align" not in html
    assert ("tabindex", "0") in page.attributes
    assert left_out == ""


def test_a_link_says_where_it_leads_and_tells_the_page_nothing():
    html, _ = rich_html('<a href="https://evil.example/?x=1" onclick="x()">Your bank</a>')
    assert judge(html).text == "Your bank (https://evil.example/?x=1)"
    assert 'rel="noopener noreferrer nofollow"' in html


def test_only_images_that_the_html_carries_itself_are_shown():
    html, _ = rich_html(f"<img src='{PIXEL}' alt='one'><img src='https://evil.example/a.png' alt='two'>")
    page = judge(html)
    assert page.tags.count("img") == 1
    assert "[image two not shown: it would have to be fetched]" in page.text
    many, _ = rich_html(f"<img src='{PIXEL}'>" * (IMAGES + 3))
    assert judge(many).tags.count("img") == IMAGES


def test_a_huge_table_is_cut_and_says_by_how_much():
    html, left_out = rich_html("<table>" + "<tr><td>1<td>2</tr>" * (TABLE_ROWS + 50) + "</table>after")
    page = judge(html)
    assert page.tags.count("tr") == TABLE_ROWS
    assert left_out == "50 rows"
    assert page.text.endswith("after")


def test_text_and_source_without_end_are_cut_and_say_so():
    html, left_out = rich_html("<p>" + "x" * (HTML_CHARACTERS + 10))
    assert len(html) < HTML_TEXT * 2
    assert left_out == "its last 13 characters, the rest of it"


@pytest.mark.parametrize("nested", ["<div>", "<b>", "<ul><li>", "<table><tr><td>", "<div></i>"])
def test_nesting_without_end_is_shown_as_the_text_it_is(nested):
    html, left_out = rich_html(nested * 20_000)
    assert judge(html).tags == ["pre"]
    assert left_out == "its form"


def test_a_heading_of_the_box_is_none_of_the_page():
    assert judge(rich_html("<h1>Approved</h1>")[0]).tags == ["p"]


def test_odd_characters_are_visible():
    assert judge(rich_html("<p>a\u202eb\x1b[2J")[0]).text == "a⟨U+202E⟩b⟨U+001B⟩[2J"


@pytest.mark.parametrize(
    "unit",
    [
        '<ul title="</ul>"><li>',
        '<ul title="> </ul>"><li>',
        "<ul title=a</ul>",
        "<ul </ul>",
        "<div><!--</div>-->",
        "<div><![CDATA[</div>]]>",
        "<div><xmp></div></xmp>",
        "<div><table></div></table>",
    ],
)
def test_ends_that_close_nothing_hide_no_depth(unit):
    _, left_out = rich_html(unit * (HTML_CHARACTERS // len(unit)))
    assert left_out == "its form"


def test_many_elements_beside_each_other_are_not_deep():
    written, left_out = rich_html("<!-- a --><div><b>x</b></div>" * 1000)
    assert (written.count("<b>x</b>"), left_out) == (1000, "")
