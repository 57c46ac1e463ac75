"""What an approval rests on: arguments in full, a difference, and who asks."""

from __future__ import annotations

from kagura_kernel.render.html import html_of
from kagura_kernel.views.body import item_blocks, item_text
from tests.support.card_page import Page


def card(view) -> Page:
    return Page(html_of(item_blocks(view.pending[0], view, live=True)))


def test_every_argument_is_there_in_full_and_folded_where_words_say_what_they_mean(story, view_of):
    asks = story.asks(
        "It may hold github:read.", subject="credential", arguments={"scope": "read\u202e", "seconds": 900}
    )
    page = card(view_of(story.started(), asks))
    assert "details" in page.tags
    assert "scoperead⟨U+202E⟩seconds900" in page.text


def test_arguments_that_are_the_question_are_in_sight_as_html_and_as_text(story, view_of):
    asks = story.asks("search", subject="plugin", arguments={"query": "a < b", "deep": {"n": [1]}, "none": None})
    view = view_of(story.started(), asks)
    page = card(view)
    assert "details" not in page.tags
    assert "querya < b" in page.text
    assert "none" not in page.text
    assert "  query:\n    a < b\n  deep:\n    {" in item_text(view.pending[0])


def test_what_the_question_shows_already_is_not_repeated(story, view_of):
    asks = story.asks("git push", arguments={"command": "git push", "directory": "/p", "stdin": ""})
    assert card(view_of(story.started(), asks)).text.count("git push") == 1


def test_a_difference_is_shown_as_one(story, view_of):
    asks = story.asks("a.md", subject="write", arguments={"diff": "@@ -1 +1 @@\n-old\n+new\n"})
    page = card(view_of(story.started(), asks))
    assert ("class", "kg-row kg-add") in page.attributes


def test_it_says_which_call_asks(story, view_of):
    view = view_of(story.started(), story.calls(call_id="c1"), story.asks(call_id="c1"))
    assert "Asked for by a call of bash." in card(view).text
