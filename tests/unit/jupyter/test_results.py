"""Results of a box on a card, in a terminal, and in the record."""

from __future__ import annotations

import json

import pytest

from kagura_kernel.render.html import html_of
from kagura_kernel.views.body import result_block, result_text
from kagura_kernel.views.card import run_text
from kagura_kernel.views.parts import KEPT_OF_RESULTS, KEPT_RESULT, KEPT_RESULTS
from kagura_kernel.views.record import RUN_MIME, run_bundle, run_html
from tests.support.card_page import Page
from tests.support.gallery import DRAWING, FRAME, crossed, png, shown


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


def test_results_in_a_terminal_are_text(story, view_of):
    assert result_text(shown("image/png", png(64, 48))).startswith("[image 64×48, ")
    assert result_text(shown("text/html", FRAME, text="  day\n0  x")) == "  day\n0  x"
    assert result_text(shown("text/html", "<p>a")) == "[HTML, 4 B]"
    assert result_text(shown("text/markdown", "**a**\x1b[2J")) == "**a**⟨U+001B⟩[2J"
    view = view_of(story.started(), shown("text/plain", "two\nlines"), story.ends())
    assert "\n\ntwo\nlines" in run_text(view)


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
