"""Each kind of block as HTML and as text, and that no text in one becomes markup or moves a cursor."""

import pytest

from kagura_kernel.domain.images import Image
from kagura_kernel.render.blocks import (
    SPRING,
    Bullets,
    Button,
    Choice,
    Clock,
    Countdown,
    Diff,
    Entry,
    Field,
    Fold,
    Group,
    Line,
    Meter,
    Pairs,
    Picture,
    Pre,
    Question,
    Rich,
    Span,
    Table,
    Told,
    chip,
    code,
    head,
    soft,
)
from kagura_kernel.render.html import html_of
from kagura_kernel.render.text import lines_of
from tests.support.card_page import Page

HOSTILE = '</div><script>x</script>" onclick="x\u202e\x1b[2J'

KINDS = [
    (
        Line((chip("gone", "bad"), code("a b", "path", "all of it"), soft("for", "now")), "refused"),
        (
            '<div class="kg-refused"><span class="kg-chip kg-bad">gone</span> '
            '<code class="kg-path" title="all of it">a b</code> <span class="kg-soft">for now</span></div>'
        ),
        ["gone a b for now"],
    ),
    (Line(("a", ", b", "", "c"), plain="! a"), "<div>a, b c</div>", ["! a"]),
    (Line(("a", "(", code("b"), ")", "c")), "<div>a (<code>b</code>) c</div>", ["a (b) c"]),
    (Line(("unseen in text",), plain=""), "<div>unseen in text</div>", []),
    (
        Line((Span("Type `x`", "prose"), SPRING, Button("Stop", "stop", {"id": "1", "enter": ""}, "small"))),
        (
            '<div>Type <code>x</code> <span class="kg-spring"></span> <button type="button" class="kg-btn kg-small" '
            'data-act="stop" data-id="1" data-enter>Stop</button></div>'
        ),
        ["Type `x`"],
    ),
    (
        Line((Clock(62, "elapsed", "1:02"), Meter(0.5, "half"))),
        (
            '<div><span class="kg-tick" data-elapsed="62.0" title="Elapsed">1:02</span> '
            '<span class="kg-bar" role="img" aria-label="half"><i style="width: 50.0%"></i></span></div>'
        ),
        [],
    ),
    (
        Line((Entry("Budget", "0.50", "none", is_budget=True),)),
        (
            '<div><label class="kg-soft">Budget <input class="kg-input kg-short" data-budget '
            'inputmode="decimal" value="0.50" type="text" placeholder="none"></label></div>'
        ),
        [],
    ),
    (
        Table([[("a",), (Span("b", tone="warn"),)]], ("x", "y"), is_wide=True),
        (
            '<div class="kg-wide"><table class="kg-table"><thead><tr><th>x</th> <th>y</th></tr></thead>'
            '<tbody><tr><td>a</td> <td class="kg-warn">b</td></tr></tbody></table></div>'
        ),
        ["a  b"],
    ),
    (Pairs([("a", ("b",))], plain=""), '<dl class="kg-pairs"><dt>a</dt><dd>b</dd></dl>', []),
    (Pairs([("a", ("b",))]), '<dl class="kg-pairs"><dt>a</dt><dd>b</dd></dl>', ["a: b"]),
    (Bullets([("a",)]), "<ul><li>a</li></ul>", ["- a"]),
    (Pre("a\nb", "full", has_end=True), '<pre class="kg-pre kg-full">a\nb<i data-end></i></pre>', ["a", "b"]),
    (
        Pre(("a\n", Span("more", look="more")), "out", is_output=True, is_followed=True),
        '<pre class="kg-pre kg-out" data-follow tabindex="0">a\n<span class="kg-more">more</span></pre>',
        ["a", "more"],
    ),
    (
        Rich('**a**"\n', "growing"),
        '<div class="kg-prose kg-growing" data-markdown="**a**&quot;\n"><p><strong>a</strong>&quot;</p>\n</div>',
        ['**a**"'],
    ),
    (Rich("<b onclick='x'>a</b>", is_html=True), '<div class="kg-rich"><b>a</b></div>', []),
    (
        Picture(Image("image/png", 2, 3, b"x"), "a slope"),
        (
            '<img class="kg-picture" src="data:image/png;base64,eA==" width="2" height="3" alt="a slope" '
            'decoding="async">'
        ),
        [],
    ),
    (
        Group((Line(("a",)),), "net", "Network"),
        '<div class="kg-net" role="group" aria-label="Network"><div>a</div></div>',
        ["a"],
    ),
    (
        Fold(("a",), (Line(("b",)),), "key", is_open=True),
        '<details data-keep="key" open><summary>a</summary><div class="kg-inside"><div>b</div></div></details>',
        ["a", "  b"],
    ),
    (
        Fold(("a",), (Line(("b",)),), "key", is_bare=True),
        '<details data-keep="key"><summary>a</summary><div>b</div></details>',
        ["a", "  b"],
    ),
    (
        Bullets([(Choice((code("a"),), "x/a", is_current=True), Span("b", "mark", hint="c"))]),
        (
            '<ul><li><button type="button" class="kg-kit-open" data-act="open" data-id="x/a" aria-current="true">'
            '<code>a</code></button> <mark title="c">b</mark></li></ul>'
        ),
        ["- a b"],
    ),
    (
        Table([[("1",)]], ("x",), of_file="First rows"),
        (
            '<div class="kg-rich"><div class="kg-sideways" role="group" tabindex="0" aria-label="First rows">'
            "<table><thead><tr><th>x</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table></div></div>"
        ),
        ["1"],
    ),
    (
        Question((Line(("a",)),), "Network: a", "app-1"),
        (
            '<blockquote class="kg-ask kg-open" role="group" aria-label="Network: a" tabindex="0" data-block '
            'data-approval="app-1"><div>a</div></blockquote>'
        ),
        ["a"],
    ),
    (
        Countdown(30, 60, "no answer is a denial"),
        (
            '<div class="kg-count" data-left="30.0" data-total="60.0"><span class="kg-bar">'
            '<i style="width:50%"></i></span> <span><span class="kg-face">0:30</span> '
            "left, no answer is a denial</span></div>"
        ),
        [],
    ),
    (Told("Use `x`."), '<div class="kg-told" role="status">Use <code>x</code>.</div>', []),
    (
        Diff("@@ -1 +1 @@\n-a\n+b\n"),
        (
            '<pre class="kg-diff" role="figure" aria-label="Difference" tabindex="0">'
            '<span class="kg-row kg-hunk"><span class="kg-no" aria-hidden="true">          </span>'
            '<span class="kg-line">@@ -1 +1 @@</span>\n</span>'
            '<span class="kg-row kg-del"><span class="kg-no" aria-hidden="true">   1      </span>'
            '<span class="kg-line">-a</span>\n</span>'
            '<span class="kg-row kg-add"><span class="kg-no" aria-hidden="true">        1 </span>'
            '<span class="kg-line">+b</span>\n</span></pre>'
        ),
        [],
    ),
]


@pytest.mark.parametrize(("block", "html", "lines"), KINDS, ids=[type(block).__name__ for block, _, _ in KINDS])
def test_a_kind_of_block_is_drawn_as_html_and_as_text(block, html, lines):
    assert html_of([block]) == html
    assert lines_of([block]) == lines


@pytest.mark.parametrize(
    "block",
    [
        Line((HOSTILE, code(HOSTILE, hint=HOSTILE), Span(HOSTILE, "prose"))),
        Line((Button(HOSTILE, "x", {"id": HOSTILE}, label=HOSTILE, hint=HOSTILE), Clock(1, "expires", HOSTILE))),
        Line((Entry(HOSTILE, HOSTILE, HOSTILE), Meter(1, HOSTILE))),
        Line(("a",), plain=HOSTILE),
        Table([[(HOSTILE,), (Span(HOSTILE, tone="warn"),)]], (HOSTILE,)),
        Pairs([(HOSTILE, (HOSTILE,))]),
        Bullets([(HOSTILE,)]),
        Pre(HOSTILE),
        Pre(HOSTILE, is_output=True),
        Pre((HOSTILE, Span(HOSTILE, hint=HOSTILE))),
        Line((Choice((HOSTILE,), HOSTILE),)),
        Rich(HOSTILE),
        Rich(HOSTILE, is_html=True),
        Picture(Image("image/png", 2, 3, b"x"), HOSTILE),
        Diff(f"@@ -1 +1 @@\n+{HOSTILE}"),
        Group((head(HOSTILE, plain=HOSTILE),), name=HOSTILE, data={"path": HOSTILE}),
        Fold((HOSTILE,), (Line((HOSTILE,)),), HOSTILE),
        Question((Line((HOSTILE,)),), HOSTILE, HOSTILE),
        Field(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, [(HOSTILE, HOSTILE)], problem=HOSTILE),
        Field(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE),
        Countdown(1, 2, HOSTILE),
        Told(HOSTILE),
    ],
    ids=lambda block: type(block).__name__,
)
def test_a_text_in_a_block_is_nothing_but_text(block):
    html = html_of([block])
    page = Page(html)
    assert page.open == []
    assert "script" not in page.tags
    assert "onclick" not in dict(page.attributes)
    for shown in (html, "\n".join(lines_of([block]))):
        assert "\u202e" not in shown
        assert "\x1b" not in shown
