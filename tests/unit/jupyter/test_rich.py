"""HTML of a box: what is left of it can only be read."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.visible import printed, visible
from kagura_kernel.render.escape import escaped, escaped_output, escaped_prose, one_line
from kagura_kernel.render.foreign import (
    HTML_CHARACTERS,
    HTML_TEXT,
    IMAGES,
    MARKDOWN_CHARACTERS,
    TABLE_ROWS,
    markdown_html,
    rich_html,
)
from kagura_kernel.render.text import Bounded, bounded
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


def test_a_number_without_end_is_the_largest_that_is_shown():
    digits = "9" * 5000
    page = judge(
        rich_html(f'<ol start="{digits}"><li>a</li></ol><table><tr><td colspan="{digits}">b</td></tr></table>')[0]
    )
    assert ("colspan", "1000") in page.attributes


def test_text_and_source_without_end_are_cut_and_say_so():
    html, left_out = rich_html("<p>" + "x" * (HTML_CHARACTERS + 10))
    assert len(html) < HTML_TEXT * 2
    assert left_out == "its last 13 characters, the rest of it"


@pytest.mark.parametrize("nested", ["<div>", "<b>", "<ul><li>", "<table><tr><td>", "<div></i>"])
def test_nesting_without_end_is_shown_as_the_text_it_is(nested):
    html, left_out = rich_html(nested * 20_000)
    assert judge(html).tags == ["pre"]
    assert left_out == "its form"


def test_elements_that_parsers_open_again_without_end_are_shown_as_the_text_they_are():
    kept_open = "".join(f"<b id={number}>" for number in range(300))
    assert rich_html(f"<p>{kept_open}{'<p>x' * 1000}")[1] == "its form"
    assert rich_html(f"<b>{'<p>x' * 1000}")[1] == ""


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


SAFE_TAGS = re.compile("p|h[1-6]|ul|ol|li|blockquote|pre|code|strong|em|s|a|span|hr|br|table|thead|tbody|tr|th|td")
SAFE_ATTRIBUTES = {"href", "rel", "target", "class", "style", "start", "title"}

HOSTILE = st.sampled_from(
    [
        "<script>",
        "</pre>",
        "<img src=x onerror=alert(1)>",
        "![a](",
        "[b](",
        "javascript:alert(1)",
        "data:text/html,x",
        ")",
        "`",
        "```\n",
        "\n\n",
        "> ",
        "- ",
        "| a | b |\n|--|--|\n",
        "&#x6a;avascript:",
        "<http://x.y>",
        "\u202e",
        '" onclick="x',
    ]
)


class Tags(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_markdown_is_rendered():
    html = markdown_html("**bold**, `code`\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n")
    assert "<strong>bold</strong>" in html
    assert "<table>" in html


def test_raw_html_is_shown_as_text():
    assert "&lt;script&gt;" in markdown_html("<script>alert(1)</script>")


def test_an_image_is_never_fetched():
    html = markdown_html("![the secret](https://evil.example/?data=42)")
    assert "<img" not in html
    assert "[image: the secret]" in html


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "vbscript:x",
        "data:text/html,x",
        "file:///etc/passwd",
        "/api/shutdown",
        "//x",
    ],
)
def test_a_link_that_leads_elsewhere_than_to_the_web_is_no_link(target):
    assert "<a " not in markdown_html(f"[click]({target})")


def test_a_web_link_opens_without_telling_where_it_came_from():
    [(_, attributes)] = [seen for seen in Tags(markdown_html("[docs](https://example.org)")).seen if seen[0] == "a"]
    assert attributes == {"href": "https://example.org", "rel": "noopener noreferrer nofollow", "target": "_blank"}


@given(st.lists(st.one_of(HOSTILE, st.text(max_size=8)), max_size=12))
def test_no_text_makes_a_tag_or_an_attribute_that_can_do_something(parts):
    for tag, attributes in Tags(markdown_html("".join(parts))).seen:
        assert SAFE_TAGS.fullmatch(tag)
        assert set(attributes) <= SAFE_ATTRIBUTES
        assert attributes.get("style") in (None, "text-align:left", "text-align:right", "text-align:center")
        assert (attributes.get("href") or "https://").split(":")[0].lower() in {"http", "https", "mailto"}


def test_of_a_passage_without_end_only_the_beginning_is_read_as_markdown():
    html = markdown_html("*so*\n" * 20 + "[" * 40_000)
    assert html.startswith("<p><em>so</em>")
    read, rest = html.split("<pre>")
    assert read.count("[") <= MARKDOWN_CHARACTERS
    assert (read + rest).count("[") == 40_000
    assert rest.endswith("[</pre>")


def test_the_beginning_of_a_long_passage_ends_with_a_line_and_the_rest_is_escaped():
    line = "word " * 20 + "\n"
    read, rest = markdown_html(line * 1000 + "<b>").split("<pre>")
    assert rest.startswith("word word")
    assert rest.endswith("&lt;b&gt;</pre>")
    assert read.rstrip().endswith("word</p>")


def test_a_short_text_is_shown_as_it_is():
    assert bounded("a\nb\n") == Bounded("a\nb")
    assert bounded("a").whole() == "a"


def test_the_end_of_a_long_text_is_shown_too():
    text = "\n".join(map(str, range(100)))
    assert bounded(text, lines=8).whole("full.txt") == (
        "0\n1\n2\n3\n4\n5\n… 92 more lines, full text in full.txt …\n98\n99"
    )


def test_an_endless_line_is_cut_in_its_middle():
    part = bounded("a" * 500 + "z" * 500, characters=100)
    assert part.whole() == "a" * 75 + "\n… more …\n" + "z" * 25


def test_text_that_lies_elsewhere_in_full_says_so_even_when_all_is_shown():
    assert bounded("a").remark("full.txt") == "full text in full.txt"


@given(st.text(st.sampled_from("ab\n")), st.integers(1, 12), st.integers(8, 40))
def test_no_text_is_longer_than_allowed_and_nothing_is_lost_unsaid(text, lines, characters):
    part = bounded(text, lines=lines, characters=characters)
    assert len(part.head) + len(part.tail) <= characters
    assert part.head.count("\n") + bool(part.tail) + part.tail.count("\n") <= max(lines, 1)
    if not part.remark():
        assert part.whole() == text.rstrip("\n")


@pytest.mark.parametrize(("missing", "words"), [(1, "… 1 more line …"), (1234, "… 1,234 more lines …")])
def test_what_is_missing_is_counted(missing, words):
    assert Bounded("", missing).remark() == words


def test_a_text_that_came_with_a_gap_is_counted_in_bytes_since_nobody_knows_its_lines():
    text = "\n".join([*(["ab"] * 100), "… 5000 bytes left out …", *(["cd"] * 100)])
    part = bounded(text, lines=8)
    shown = len(part.head) + len(part.tail)
    marker = len("… 5000 bytes left out …")
    assert part.remark("full.txt") == f"… {5000 + len(text) - marker - shown:,} more bytes, full text in full.txt …"
    assert "line" not in part.remark()


def test_a_gap_that_is_shown_itself_leaves_the_other_lines_counted():
    text = "\n".join(["… 5000 bytes left out …", *(["ab"] * 100)])
    assert bounded(text, lines=8).remark() == "… 93 more lines …"


@pytest.mark.parametrize(
    "odd", ["\u202e", "\u2066", "\u200b", "\ufeff", "\x00", "\x07", "\x1b", "\x9b", "\u2028", "\U000e0041"]
)
def test_what_cannot_be_seen_is_written_out(odd):
    assert visible(f"a{odd}b") == f"a⟨U+{ord(odd):04X}⟩b"


def test_a_carriage_return_cannot_hide_the_start_of_a_command():
    assert visible("rm -rf ~\rls") == "rm -rf ~⟨U+000D⟩ls"


def test_ordinary_text_stays_as_it_is():
    text = "Grüße, 日本語, עברית, 👩‍👩‍👧\n\ttab"
    assert visible(text) == text


def test_lone_surrogates_do_not_stop_the_message_from_being_sent():
    visible("\udc80").encode("utf-8")


def test_colours_of_a_program_are_dropped_and_other_sequences_are_shown():
    assert printed("\x1b[1;31mred\x1b[0m\x1b[2J") == "red⟨U+001B⟩[2J"


def test_a_progress_bar_becomes_lines():
    assert printed("10%\r20%\r\ndone") == "10%\n20%\ndone"


@given(st.text())
def test_nothing_escapes_from_escaped_text(text):
    for result in (escaped(text), escaped_output(text)):
        assert not re.search(r"[<>\"']", result)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", result)


def test_code_in_our_own_messages_is_set_as_code_and_stays_escaped():
    assert escaped_prose("use `--new` <b>") == "use <code>--new</code> &lt;b&gt;"


def test_a_long_text_is_cut_to_one_line():
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"
