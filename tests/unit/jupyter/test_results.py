"""Results of a box on a card, in a terminal, and in the record."""

import base64
import json
import struct

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.images import NoImageError
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.render.html import html_of
from kagura_kernel.render.images import MAX_SIDE, decoded, image_of
from kagura_kernel.views.body import result_block, result_text
from kagura_kernel.views.card import run_text
from kagura_kernel.views.changes import Beside, changes_blocks
from kagura_kernel.views.parts import KEPT_OF_RESULTS, KEPT_RESULT, KEPT_RESULTS
from kagura_kernel.views.previews import IMAGE_BYTES, TABLE_BYTES, preview_blocks, wanted
from kagura_kernel.views.record import RUN_MIME, run_bundle, run_html
from tests.support.card_page import Page
from tests.support.gallery import DRAWING, FRAME, crossed, png, sent_image, shown


def test_an_image_stands_in_a_frame_of_the_box_and_reserves_its_room():
    page = Page(html_of([result_block(shown("image/png", png(64, 48), text="A slope"))]))
    attributes = dict(page.attributes)
    assert page.text.startswith("Output of the box")
    assert (attributes["width"], attributes["height"], attributes["alt"]) == ("64", "48", "A slope")
    assert attributes["src"].startswith("data:image/png;base64,")
    assert attributes["aria-label"] == "Output of the box: image"


def test_a_drawing_is_an_image_and_never_part_of_the_page():
    hostile = DRAWING.replace("<rect", "<script>window.canary = 1</script><rect", 1)
    page = Page(html_of([result_block(shown("image/svg+xml", hostile))]))
    assert "svg" not in page.tags
    assert "script" not in page.tags
    assert dict(page.attributes)["src"].startswith("data:image/svg+xml;base64,")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (shown("image/png", DRAWING.encode()), "it is not what it says, image/png"),
        (shown("image/svg+xml", png(2, 2).decode("latin-1")), "not shown"),
        (shown("image/png", b"<script>"), "its bytes are no image"),
        (shown("image/png", "%%%"), "its data is no base64"),
        (shown("image/png", png(2, 2, claims=(60_000, 60_000))), "it claims 60,000 × 60,000 pixels"),
        (shown("image/png", "", bytes=9_000_000, note="It was too large."), "Output of the box It was too large."),
    ],
)
def test_what_is_no_image_says_why_and_shows_nothing(said, why):
    page = Page(html_of([result_block(said)]))
    assert "img" not in page.tags
    assert why in page.text


CHART = '<style>#vis {}</style><div id="vis"></div><script>vegaEmbed("#vis")</script>'


def test_a_chart_that_only_scripts_would_draw_says_what_it_is_and_what_to_do():
    page = Page(html_of([result_block(shown("text/html", CHART, text="alt.Chart(...)"))]))
    assert "do not run here: show it as PNG or SVG" in page.text
    assert "alt.Chart(...)" in page.text
    with_words = Page(html_of([result_block(shown("text/html", f"<p>Sales</p>{CHART}"))]))
    assert "Sales" in with_words.text
    assert "PNG" not in with_words.text


def test_results_in_a_terminal_are_text(story, view_of):
    assert result_text(shown("image/png", png(64, 48))).startswith("[image 64×48, ")
    assert result_text(shown("text/html", FRAME, text="  day\n0  x")) == "  day\n0  x"
    assert result_text(shown("text/html", "<p>a")) == "[HTML, 4 B]"
    assert result_text(shown("text/markdown", "**a**\x1b[2J")) == "**a**⟨U+001B⟩[2J"
    view = view_of(story.started(), shown("text/plain", "two\nlines"), story.ends())
    assert "\n\ntwo\nlines" in run_text(view)


def test_a_card_says_which_images_the_model_was_shown_with_the_task_and_by_a_call(story, view_of):
    calls = (story.calls("python", code="plot()"), sent_image("c1"), story.answers())
    view = view_of(story.started(), sent_image("task", "plan.png"), *calls, story.ends())
    text = Page(run_html(view)).text
    assert "Seen by the model plan.png, 1,500 × 480, about 960 tokens" in text
    assert "Seen by the model: 1,500 × 480, about 960 tokens" in text
    assert "1 image" in text
    assert "= seen by the model: plan.png, 1,500 × 480" in run_text(view)
    record = run_bundle(view)[0][RUN_MIME]
    image = {"name": "", "mime": "image/png", "width": 1500, "height": 480}
    assert (record["images"], record["steps"][0]["images"]) == ([{**image, "name": "plan.png"}], [image])


def test_the_saved_record_has_no_data_of_results_and_stays_small(story, view_of):
    many = [shown("image/png", png(300, 300)) for _ in range(KEPT_RESULTS + 30)]
    data, _ = run_bundle(view_of(story.started(), *many, story.ends()))
    record = data[RUN_MIME]
    assert len(json.dumps(record)) < 20_000
    assert record["steps"][0] == {
        "kind": "result",
        "mime": "image/png",
        "bytes": len(png(300, 300)),
        "text": "",
        "note": "",
    }
    assert record["steps"][-1]["text"].startswith("30 more results of the box")
    assert Page(data["text/html"]).tags.count("img") == KEPT_RESULTS


def test_a_card_takes_only_so_much_of_all_results(story, view_of):
    big = "x" * (KEPT_RESULT // 2)
    view = view_of(story.started(), *[shown("text/plain", big) for _ in range(9)], shown("text/plain", big * 3))
    assert sum(len(item.said.data) for item in view.items) <= KEPT_OF_RESULTS
    assert "Not shown: the results before it fill the card" in Page(run_html(view)).text
    assert "it is too large for a card" in Page(run_html(view)).text


def test_a_passage_ends_where_a_result_comes(story, view_of):
    view = view_of(story.started(), story.streams("a"), shown("text/plain", "x"), story.streams("b"))
    assert [type(item).__name__ for item in view.items] == ["Passage", "Result", "Passage"]


def test_variables_are_one_quiet_line_and_those_that_failed_are_seen(story, view_of):
    view = view_of(
        story.started(),
        crossed("df", "in", form="frame", summary="DataFrame, 1,000 × 4"),
        crossed("result", "out", form="json", summary="dict"),
        crossed("model", "out", error="A `Regressor` cannot cross.\x1b"),
        story.ends(),
    )
    text = Page(run_html(view)).text
    assert "In df (DataFrame, 1,000 × 4) Out result (dict)" in text
    assert "model did not come out of the box: A Regressor cannot cross.⟨U+001B⟩" in text
    assert "= in: df (DataFrame, 1,000 × 4)\n= out: result (dict)\n! out: model: A" in run_text(view)
    assert [one["name"] for one in run_bundle(view)[0][RUN_MIME]["variables"]] == ["df", "result", "model"]


def row(path: str, size: int, **fields: object) -> FileChange:
    return FileChange(**{"path": path, "status": "added", "size": size} | fields)


def page(path: str, data: bytes, *, size: int | None = None, **fields: object) -> Page:
    change = row(path, len(data) if size is None else size, **fields)
    return Page(html_of(changes_blocks({path: change}, live=False, beside=Beside({path: data}))))


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (row("a.png", 1000, binary=True), 1000),
        (row("a.png", IMAGE_BYTES + 1, binary=True), 64),
        (row("a.csv", 10_000_000), TABLE_BYTES),
        (row("a.bin", 5000, binary=True), 64),
        (row("a.py", 5000), 0),
        (row("a.png", 1000, status="deleted"), 0),
        (row("a.png", 1000, kind="link"), 0),
    ],
)
def test_only_as_much_is_read_as_a_preview_takes(change, count):
    assert wanted(change) == count


def test_an_image_is_small_and_says_its_size():
    shown = page("plot.PNG", png(64, 48), binary=True)
    assert ("width", "64") in shown.attributes
    assert "64 × 48" in shown.text


def test_a_file_that_only_calls_itself_an_image_is_not_shown():
    assert "No preview: its bytes are no image." in page("a.png", b"<script>x", binary=True).text


def test_the_first_rows_of_a_table_are_shown_and_the_diff_stays():
    data = b"day;amount\n" + b"".join(b"%d;<b>%d</b>\n" % (n, n) for n in range(50))
    shown = page("a.csv", data, diff="@@ -0,0 +1 @@\n+day;amount\n")
    assert shown.tags.count("tr") == 9
    assert "<b>0</b>" in shown.text
    assert "+day;amount" in shown.text


def test_the_beginning_of_a_long_table_ends_with_a_whole_row():
    data = "a,b\n1,é\n2,ende".encode()
    shown = page("a.csv", data[:-1], size=10_000)
    assert shown.tags.count("td") == 2


def test_records_are_a_table_too():
    data = json.dumps([{"a": 1, "b": {"c": 2}}, {"a": None, "d": "x\u202e"}]).encode()
    shown = page("a.json", data)
    assert [tag for tag in shown.tags if tag in {"th", "td"}] == ["th"] * 3 + ["td"] * 6
    assert "⟨U+202E⟩" in shown.text
    assert page("a.jsonl", b'{"a": 1}\n{"a": 2}\n').tags.count("td") == 2
    assert page("a.jsonl", '{"a": "1\u2028\x85"}\r\n{"a": 2}\r\n'.encode()).tags.count("td") == 2


def test_a_binary_file_says_what_it_is():
    assert "Binary file, 48,213 bytes: PDF document." in page("a.pdf", b"%PDF-1.7", size=48_213, binary=True).text
    assert "runs code when it is loaded" in page("a.pkl", b"\x80\x04\x95...", binary=True).text


@pytest.mark.parametrize(("data", "is_text"), [(b"a log\n\xc3", True), (b"a\x00log", False), (b"caf\xe9!", False)])
def test_a_file_too_large_for_a_difference_is_not_called_binary(data, is_text):
    told = page("a.log", data, size=1_288_893, binary=True).text
    assert ("1,288,893 bytes that begin as text" in told) == is_text == ("Binary file" not in told)


@given(st.sampled_from(["a.csv", "a.tsv", "a.json", "a.jsonl", "a.png", "a.svg", "a.bin"]), st.binary(max_size=300))
def test_whatever_a_file_holds_its_preview_is_harmless(path, data):
    shown = Page(html_of(preview_blocks(row(path, len(data), binary=True), data)))
    assert not shown.open
    assert set(shown.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "img"}


@pytest.mark.parametrize("text", ["[" * 100_000, "[" + "9" * 5000 + "]", '[{"a": NaN}]', '[{"a": ' + "[" * 5000])
def test_hostile_json_is_no_table(text):
    assert "Traceback" not in html_of(preview_blocks(row("a.json", len(text)), text.encode()))


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 48, 64) + b"\x01\x01\x11\x00"
GIF = b"GIF89a" + struct.pack("<HH", 7, 5) + b"\x00\x00\x00"
HUGE = png(4, 4, claims=(15_000, 15_000))
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + b"\x1f\x00\x00" + b"\x0f\x00\x00"


@pytest.mark.parametrize(
    ("data", "mime", "size"),
    [
        (png(3, 2), "image/png", (3, 2)),
        (JPEG, "image/jpeg", (64, 48)),
        (GIF, "image/gif", (7, 5)),
        (WEBP, "image/webp", (32, 16)),
        (DRAWING.encode(), "image/svg+xml", (320, 90)),
    ],
)
def test_an_image_is_what_its_bytes_say_and_has_its_size_beforehand(data, mime, size):
    image = image_of(data)
    assert (image.mime, (image.width, image.height)) == (mime, size)
    assert image.address.startswith(f"data:{mime};base64,")


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ('width="2in" height="36pt"', (192, 48)),
        ('viewBox="0 0 400 100"', (400, 100)),
        ('width="200" viewBox="0 0 400 100"', (200, 50)),
        ('width="100%" height="100%"', (300, 150)),
        ('viewBox="0 0 nan inf"', (300, 150)),
        ('width="200" viewBox="0 0 1e-320 1"', (200, 150)),
    ],
)
def test_a_drawing_has_the_size_it_asks_for_or_a_usual_one(attributes, size):
    image = image_of(f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}></svg>'.encode())
    assert (image.width, image.height) == size


@pytest.mark.parametrize("claims", [(MAX_SIDE + 1, 1), (1, MAX_SIDE + 1), (10_000, 10_000), (0, 5)])
def test_an_image_that_claims_too_much_room_or_none_is_no_image(claims):
    with pytest.raises(NoImageError, match=r"claims|no size"):
        image_of(png(4, 4, claims=claims))


def laughs(levels: int) -> str:
    """A drawing of few elements that is drawn as 10 to the power of `levels`."""
    defs = '<g id="a0"><rect width="1" height="1"/></g>'
    for level in range(1, levels + 1):
        defs += f'<g id="a{level}">' + f'<use href="#a{level - 1}"/>' * 10 + "</g>"
    return f'<svg xmlns="http://www.w3.org/2000/svg"><defs>{defs}</defs><use href="#a{levels}"/></svg>'


@pytest.mark.parametrize(
    ("drawing", "why"),
    [
        (laughs(9), "draw too much"),
        ('<svg><g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g></svg>', "refers to itself"),
        ('<svg><g id="a" fill="url(#a)"/></svg>', "refers to itself"),
        ('<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg>&a;</svg>', "declares entities"),
        ("<svg>" + "<g>" * 300 + "</g>" * 300 + "</svg>", "too deep"),
        ("<svg><g></svg>", "cannot be read|can be read"),
        ('<?xml version="1.0" encoding="shift_jis"?><svg/>', "can be read"),
        ('<?xml version="1.0" encoding="unheard-of"?><svg/>', "can be read"),
        ('<html><body><svg id="x"></svg></body></html>', "no image"),
    ],
)
def test_a_drawing_that_would_never_end_or_is_none_is_refused(drawing, why):
    with pytest.raises(NoImageError, match=why):
        image_of(drawing.encode())


def hidden_laughs(reference, name="a{}", before=""):
    """As `laughs(9)`, with references and names of parts in another form."""
    parts = "".join(
        f'<g id="{name.format(level)}">{reference.format(name.format(level - 1), level - 1) * 10}</g>'
        for level in range(1, 10)
    )
    first = f'<g id="{name.format(0)}"><rect width="1" height="1"/></g>'
    return f'<svg xmlns="http://www.w3.org/2000/svg">{before}{first}{parts}</svg>'


STYLE = "".join(f".c{level}{{{{fill:url(#a{level})}}}}" for level in range(9))


@pytest.mark.parametrize(
    "drawing",
    [
        hidden_laughs('<use href=" #{}"/>'),
        hidden_laughs('<use href="#%61{1}"/>'),
        hidden_laughs('<rect fill="URL(#{})"/>'),
        hidden_laughs('<rect fill="u\\72l(#{})"/>'),
        hidden_laughs('<rect fill="url(#{})"/>', "a" * 201 + "{}"),
        hidden_laughs('<use xlink:href="#{}"/>', "a b{}"),
        hidden_laughs('<use><set attributeName="href" to="#{}"/></use>'),
        hidden_laughs('<use><set attributeName="x" to="#{}"/></use>'),
        hidden_laughs('<rect class="c{1}"/>', before=f"<style>{STYLE.format()}</style>"),
        hidden_laughs('<rect class="c{1}"/>', before="<style>.c1{fill:u<!-- -->rl(#a1)}</style>"),
        hidden_laughs('<rect class="c{1}"/>', before="<style>.c1{fill:u<g/>rl(#a1)}</style>"),
        "<svg><style>@import 'data:text/css,rect{}'</style></svg>",
        '<?xml-stylesheet href="data:text/css,rect{}"?><svg></svg>',
        '<svg><image href="data:image/svg+xml,%3Csvg/%3E"/></svg>',
        f'<svg><image href="data:image/png;base64,{base64.b64encode(b"<svg></svg>").decode()}"/></svg>',
        f'<svg><image href="data:image/png;base64,{base64.b64encode(HUGE).decode()}"/></svg>',
        '<svg><rect style="fill:url(data:image/svg+xml,x)"/></svg>',
        "<svg><filter>" + "<feTurbulence/>" * 300 + "</filter></svg>",
    ],
)
def test_a_drawing_that_hides_what_it_refers_to_or_brings_along_is_refused(drawing):
    with pytest.raises(NoImageError):
        image_of(drawing.encode())


def test_a_drawing_may_carry_small_images_and_a_style_of_its_own():
    picture = base64.b64encode(png(20, 20)).decode()
    drawing = f'<svg><style>*{{stroke:#00f}}</style><image href="data:image/png;base64,{picture}"/></svg>'
    assert image_of(drawing.encode()).mime == "image/svg+xml"


def test_a_drawing_as_plotting_libraries_make_them_is_shown():
    marks = '<use href="#m" x="1"/>' * 2000
    doctype = '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">'
    drawing = (
        f'<?xml version="1.0"?>{doctype}<svg width="10" height="10"><path id="m" clip-path="url(#c)"/>{marks}</svg>'
    )
    assert image_of(drawing.encode()).width == 10


@given(st.binary(max_size=200), st.sampled_from([b"", png(2, 2)[:20], JPEG[:9], GIF[:7], WEBP[:18], b"<svg "]))
def test_whatever_the_bytes_are_it_is_an_image_or_a_calm_refusal(rest, beginning):
    try:
        size = image_of(beginning + rest).width
    except NoImageError as why:
        size = len(str(why))
    assert size > 0


@pytest.mark.parametrize("text", ["no base64!", "AAA", "ä"])
def test_what_is_no_base64_is_no_image(text):
    with pytest.raises(NoImageError, match="base64"):
        decoded(text)
