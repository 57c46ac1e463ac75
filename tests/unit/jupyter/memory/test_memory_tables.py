"""The tables of memories: data to work with, and a list for people in which nothing poses as something else."""

import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from kagura_kernel.cockpit.next_commands import NO_MEMORIES
from kagura_kernel.domain.memory import (
    FIXES,
    LESSON,
    PREVENTS,
    Author,
    Draft,
    Edge,
    Query,
    Recalled,
    Source,
    Tier,
)
from kagura_kernel.jupyter.memories import (
    MEMORIES_MIME,
    SHOWN,
    MemoryFrame,
    MemoryText,
    joined_table,
    lessons_table,
    memories_blocks,
    memories_bundle,
    memories_table,
)
from kagura_kernel.patterns.lessons import lessons
from kagura_kernel.render.html import html_of
from tests.support.card_page import Page

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
POISON = "<script>alert(1)</script> \u202egnp.exe \x1b[2J trusted"


@pytest.fixture
def found(memory):
    """A trusted note of a person's, and what an agent left."""
    person = Source(Author.HUMAN, "ada")
    agent = Source(Author.AGENT, "default", "run-1", "notes.md")
    note = Draft("Sales are in EUR.\nSince 2025.", person, Tier.TRUSTED, tags=("sales", "eur"), at=NOW - timedelta(3))
    left = Draft(f"{POISON}\nsales", agent, type="fix", scope="project:shop", pinned=True, at=NOW - timedelta(hours=5))
    kept = [memory.remember(replace(note, id="mem-a")), memory.remember(replace(left, id="mem-b"))]
    return [Recalled(kept[0], 0.75, ("sales", "tag: sales")), Recalled(kept[1], 0.5, ("neighbour",))]


def test_it_is_a_data_frame_with_kinds_that_can_be_counted_on(found):
    frame = memories_table(found, NOW)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == ["mem-a", "mem-b"]
    assert list(frame.columns) == [
        *("score", "tier", "type", "source", "age", "why_matched", "summary", "text", "said", "tags", "scope"),
        *("pinned", "at"),
    ]
    one, two = frame.to_dict("records")
    assert (one["score"], one["tier"], one["type"], one["source"]) == (0.75, "trusted", "note", "human ada")
    assert (one["age"], one["why_matched"]) == (pd.Timedelta(days=3), "sales, tag: sales")
    assert (one["summary"], one["text"], one["tags"]) == (
        "Sales are in EUR.",
        "Sales are in EUR.\nSince 2025.",
        "eur, sales",
    )
    assert (two["tier"], two["source"], two["pinned"]) == ("quarantine", "agent default, run-1, notes.md", True)
    assert [str(frame[name].dtype) for name in ("score", "age", "pinned", "at")] == [
        *("Float64", "timedelta64[s]", "boolean", "datetime64[us, UTC]")
    ]


def test_what_was_not_asked_for_has_no_score(found):
    assert memories_table(found, NOW, searched=False)["score"].isna().all()
    assert memories_table([], NOW).empty
    assert list(memories_table([], NOW).columns) == list(memories_table(found, NOW).columns)


def test_what_is_taken_out_of_it_is_an_ordinary_frame_and_it_can_be_stored(found):
    frame = memories_table(found, NOW)
    assert type(frame[["tier", "summary"]]) is pd.DataFrame
    assert type(frame[frame["tier"] == "trusted"]) is pd.DataFrame
    assert pickle.loads(pickle.dumps(frame)).equals(frame)


def test_a_text_that_tries_to_be_something_else_is_only_a_text(found):
    frame = memories_table(found, NOW)
    whole = frame._repr_html_() + repr(frame) + str(memories_bundle(frame.lines(), NOW))
    assert "<script>" not in frame._repr_html_()
    for odd in ("\u202e", "\x1b"):
        assert odd not in whole
    assert "⟨U+202E⟩" in frame._repr_html_()
    assert "\x1b" not in frame.loc["mem-b", "text"]


def test_what_nobody_has_promoted_is_marked_in_words_and_not_by_colour_alone(found):
    frame = memories_table(found, NOW)
    page = Page(frame._repr_html_())
    assert page.open == []
    assert page.buttons == []
    html = frame._repr_html_()
    assert html.count(">not trusted<") == 1
    assert html.count(">trusted<") == 1
    assert "2 memories, 1 not trusted" in page.text
    assert "<q>" in html.partition(">not trusted<")[2]
    assert "<q>" not in html.partition(">not trusted<")[0].partition("kg-leases")[2]
    lines = repr(frame).splitlines()
    assert lines[0] == "mem-a  Sales are in EUR."
    assert lines[2].startswith("mem-b  [not trusted, pinned] ")


def test_a_frame_without_its_columns_is_shown_as_any_other(found):
    frame = memories_table(found, NOW)
    del frame["tier"]
    assert frame._repr_html_().startswith('<div class="tex2jax_ignore mathjax_ignore"><table')
    assert "2 rows x 12 columns" in repr(frame)


def test_a_long_list_is_cut_where_it_is_shown_and_nowhere_else(memory):
    made = [memory.remember(Draft(f"Note {number}", Source(Author.HUMAN))) for number in range(SHOWN + 5)]
    frame = memories_table([Recalled(one, 0.0) for one in made], NOW, searched=False)
    assert len(frame) == SHOWN + 5
    assert "and 5 more" in frame._repr_html_()
    data, _ = memories_bundle(frame.lines(), NOW)
    assert len(data[MEMORIES_MIME]["memories"]) == SHOWN


def test_nothing_found_is_said_in_words():
    frame = memories_table([], NOW)
    assert repr(frame) == NO_MEMORIES
    assert "<code>%kagura memory add TEXT</code> remembers something." in frame._repr_html_()


def test_lessons_have_their_own_columns_and_the_same_list(memory):
    source = Source(Author.ENGINE, run_id="run-1")
    data = {"kind": "command", "trigger": "`make`: exit 2", "said": "<b>no cmake", "task": "Build it."}
    lesson = memory.remember(Draft("`make` failed.", source, type=LESSON, data=data, id="mem-lesson"))
    fix = memory.remember(Draft("Install cmake.", source, type="fix", data={"fix": "apt install cmake"}))
    runs = [memory.remember(Draft(f"Run {number}", source, type="outcome")) for number in (1, 2)]
    memory.create_edge(Edge(fix.id, lesson.id, FIXES))
    for run in runs:
        memory.create_edge(Edge(lesson.id, run.id, PREVENTS))
    frame = lessons_table(lessons(memory, Query("make")), NOW)
    assert isinstance(frame, MemoryFrame)
    row = frame.loc["mem-lesson"]
    assert (row["trigger"], row["fix"], row["seen"], row["task"]) == (
        "`make`: exit 2",
        "apt install cmake",
        2,
        "Build it.",
    )
    assert set(row["prevents"].split(", ")) == {run.id for run in runs}
    assert row["tier"] == "quarantine"
    assert "apt install cmake" in frame._repr_html_()
    assert row["said"] == "<b>no cmake"
    assert list(frame.columns).count("said") == 1
    assert lessons_table([], NOW).empty


def test_a_lesson_that_a_person_wrote_down_is_shown_in_their_words(memory):
    memory.remember(Draft("Run the\nmigrations first.", Source(Author.HUMAN, by="ann"), type=LESSON, id="mem-hers"))
    frame = lessons_table(lessons(memory, Query("")), NOW)
    assert frame.loc["mem-hers"]["trigger"] == "Run the migrations first."
    assert "Run the migrations first." in repr(frame)


def test_all_that_a_promotion_would_let_agents_read_lies_open_beside_its_button(memory):
    source = Source(Author.ENGINE, run_id="run-1")
    data = {"kind": "command", "trigger": "`make`: exit 2", "said": "<b>no cmake"}
    memory.remember(Draft("`make`: exit 2", source, type=LESSON, data=data, id="mem-lesson"))
    memory.remember(Draft("Long.\nVery.", source, Tier.TRUSTED, id="mem-long"))
    lines = memories_table(memory.recall(Query("", k=9)), NOW).lines()
    live = html_of(memories_blocks(lines, NOW, live=True))
    assert "said then: &lt;b&gt;no cmake" in live
    # What is trusted already stays folded.
    assert live.count('data-keep="memory:mem-lesson" open') == 1
    assert live.count(" open>") == 1
    assert " open>" not in html_of(memories_blocks(lines, NOW, live=False))


def test_what_lies_around_a_memory_says_how_from_its_point_of_view(memory):
    source = Source(Author.HUMAN, "ada")
    for name in ("a", "b", "c"):
        memory.remember(Draft(f"Memory {name}", source, id=f"mem-{name}"))
    memory.create_edge(Edge("mem-a", "mem-b", "prevents"))
    memory.create_edge(Edge("mem-c", "mem-a", "came-from"))
    memory.create_edge(Edge("mem-b", "mem-c", "supports"))
    table = joined_table(memory.explore("mem-a", depth=2))
    assert sorted(zip(table.index, table["how"], strict=True)) == [
        ("mem-b", "prevents"),
        ("mem-b", "supports mem-c"),
        ("mem-c", "led to"),
    ]
    assert joined_table(memory.explore("mem-a", depth=0)).empty


def test_one_memory_is_shown_whole_with_what_is_known_of_it(memory):
    source = Source(Author.AGENT, "default", "run-1")
    one = memory.remember(Draft(f"First line\n{POISON}", source, data={"usd": 0.5, "<b>": "x"}, tags=("t",)))
    text = MemoryText(memory.promote(one.id, by="ada"))
    assert text.memory.id == one.id
    assert "promoted by ada" in repr(text)
    assert "\u202e" not in repr(text) + text._repr_html_()
    assert "<b>" not in text._repr_html_()
    assert "<script>" not in text._repr_html_()
    assert Page(text._repr_html_()).open == []


def test_a_memory_of_any_time_has_its_line(memory):
    for year in (1, 1600, 9999):
        memory.remember(Draft(f"of the year {year}", Source(Author.IMPORT), at=datetime(year, 1, 2, tzinfo=UTC)))
    frame = memories_table(memory.recall(Query("")), NOW)
    assert sorted(at.year for at in frame["at"]) == [1, 1600, 9999]
    assert {round(age.days / 365.25) for age in frame["age"].astype(object)} == {2025, 426, -7973}
