"""What every memory promises of what it finds: by words, by filters, in an order that makes sense, and never more."""

# ruff: noqa: D102, S101, PLR2004 - a test's name is its sentence, and a suite asserts; pytest runs it, never python -O
from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kagura_kernel.domain.errors.memory import MemoryInvalid
from kagura_kernel.domain.memory import LESSON, NOTE, Query, Tier
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.testing.conformance.memory_rig import ANY_MOMENT, NEIGHBOURS, UsesMemory, asked, draft, hours

_NOTES = (
    "The staging database is called orchid and runs on port 6543.",
    "Caroline adopted a puppy from the shelter in Leeds.",
    "Certificates are renewed by a job every Monday at six.",
    "The build broke because the compiler ran out of memory.",
    "Lunch on Friday is at the Italian place near the station.",
    "Die Rechnung des Lieferanten wurde zweimal bezahlt.",
    "本番のデータベースは毎晩バックアップされる。",
    "キャッシュサーバーの再起動で障害が直った。",
)
_QUESTIONS = {
    "What is the staging database called?": 0,
    "who adopted a PUPPY": 1,
    "renewed certificates": 2,
    "compiler memory": 3,
    "italian lunch?": 4,
    "Rechnung zweimal bezahlt": 5,
    "バックアップ": 6,
    "きゃっしゅさーばー": 7,
    "障害": 7,
}
_SYNTAX = (
    "'",
    '"',
    '"unfinished phrase',
    "' OR 1=1 --",
    "'; DROP TABLE memories; --",
    "orchid AND NOT (database",
    "NEAR(orchid, 5)",
    "orchid:*",
    "text:orchid",
    "-orchid ^orchid +orchid",
    "orchid*",
    "orchid & | ! <-> database",
    "{orchid} [1] (2)",
    "%_%",
    "\\",
    "$$; $1 :name ?",
    "*",
    "...",
    "a" * 5_000,
    " ".join(f"w{number}" for number in range(3_000)),
    "\u200b",
    "\x01\x1b",
    "🔥",
)


class MemoryRecallConformance(UsesMemory):
    """recall and pinned."""

    def test_a_question_finds_the_memory_that_answers_it_first(self, memory: MemoryStore) -> None:
        memory.remember_many([draft(text) for text in _NOTES])
        for question, answer in _QUESTIONS.items():
            assert asked(memory, question)[:1] == [_NOTES[answer]], question

    def test_what_is_found_says_how_well_and_why(self, memory: MemoryStore) -> None:
        memory.remember_many([draft(text) for text in _NOTES])
        found = memory.recall(Query("staging database orchid memory"))
        scores = [one.score for one in found]
        assert len(found) >= 2
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert all(one.why for one in found)
        assert any("orchid" in word for word in found[0].why)

    def test_a_word_of_the_summary_and_a_tag_find_it_too(self, memory: MemoryStore) -> None:
        memory.remember(draft("It was the wrong one.", summary="About the pelican", tags=("walrus",)))
        memory.remember(draft("Something else entirely."))
        for word in ("pelican", "walrus"):
            assert asked(memory, word) == ["It was the wrong one."]

    def test_a_question_that_fits_nothing_finds_nothing(self, memory: MemoryStore) -> None:
        memory.remember_many([draft(text) for text in _NOTES])
        assert asked(memory, "xylophone") == []

    def test_no_more_are_told_than_were_asked_for(self, memory: MemoryStore) -> None:
        memory.remember_many([draft(f"The release number {number}.") for number in range(12)])
        assert len(asked(memory, "release", k=5)) == 5
        assert len(asked(memory, "release", k=12)) == 12
        assert len(asked(memory, "release")) == 10

    def test_an_empty_question_lists_the_newest(self, memory: MemoryStore) -> None:
        self.needs(ANY_MOMENT)
        moments = [3, 1, 4, 2, 5]
        memory.remember_many([draft(f"At {moment}.", at=hours(moment)) for moment in moments])
        assert asked(memory, "") == ["At 5.", "At 4.", "At 3.", "At 2.", "At 1."]
        assert asked(memory, "  ", k=2) == ["At 5.", "At 4."]
        assert asked(memory, "", k=2, until=hours(4)) == ["At 3.", "At 2."]

    @pytest.mark.parametrize("number", range(len(_SYNTAX)))
    def test_the_syntax_of_a_query_language_is_text(self, memory: MemoryStore, number: int) -> None:
        memory.remember_many([draft(text) for text in _NOTES])
        asked(memory, _SYNTAX[number])
        assert memory.counts().memories == len(_NOTES)
        if "orchid" in _SYNTAX[number]:
            assert _NOTES[0] in asked(memory, _SYNTAX[number])

    @pytest.mark.parametrize(
        "wrong",
        [
            {"k": 0},
            {"k": 1_001},
            {"min_importance": 2.0},
            {"types": ("Upper",)},
            {"tags": ("two words",)},
            {"text": "a\0b"},
            {"text": "\udcff"},
        ],
        ids=repr,
    )
    def test_a_question_that_cannot_be_asked_is_refused(self, memory: MemoryStore, wrong: dict[str, Any]) -> None:
        with pytest.raises(MemoryInvalid):
            memory.recall(Query(**{"text": "x", **wrong}))

    def test_filters_hold_alone_and_together(self, memory: MemoryStore) -> None:
        drafts = [
            draft(
                f"The harbour {kind} {scope or 'all'} {tier.value} {weight}",
                type=kind,
                scope=scope,
                tier=tier,
                importance=weight,
                tags=("harbour", *(("crane",) if weight > 0.5 else ())),
                at=hours(number),
            )
            for number, (kind, scope, tier, weight) in enumerate(
                product((NOTE, LESSON), ("", "project:a"), Tier, (0.2, 0.9))
            )
        ]
        memory.remember_many(drafts)
        for text, types, scopes, tier, tags, least in product(
            ("harbour", ""), ((), (NOTE,)), (None, ("project:a",)), (None, *Tier), ((), ("crane",)), (0.0, 0.5)
        ):
            query = Query(text, 100, types, tags, False, tier, scopes, hours(2), hours(14), least)  # noqa: FBT003
            expected = {
                one.text
                for one in drafts
                if (not types or one.type in types)
                and (scopes is None or one.scope in scopes)
                and (tier is None or one.tier is tier)
                and set(tags) <= set(one.tags)
                and one.importance >= least
                and one.at is not None
                and hours(2) <= one.at < hours(14)
            }
            found = [one.memory.text for one in memory.recall(query)]
            assert set(found) == expected, query
            assert len(found) == len(expected)

    def test_tags_are_asked_for_by_any_or_by_all(self, memory: MemoryStore) -> None:
        memory.remember(draft("Both of the harbour.", tags=("red", "blue")))
        memory.remember(draft("One of the harbour.", tags=("red",)))
        memory.remember(draft("Other of the harbour.", tags=("green",)))
        assert set(asked(memory, "harbour", tags=("blue", "green"))) == {
            "Both of the harbour.",
            "Other of the harbour.",
        }
        assert asked(memory, "harbour", tags=("red", "blue"), all_tags=True) == ["Both of the harbour."]
        assert asked(memory, "harbour", tags=("red", "violet"), all_tags=True) == []

    def test_a_filter_that_leaves_few_still_finds_as_many_as_there_are(self, memory: MemoryStore) -> None:
        crowd = [draft(f"The lighthouse keeper wrote entry {number}.") for number in range(60)]
        wanted = [draft(f"The lighthouse {number}, seen once.", scope="project:rare") for number in range(3)]
        memory.remember_many([*crowd, *wanted])
        assert len(asked(memory, "lighthouse keeper wrote entry", k=3, scopes=("project:rare",))) == 3

    def test_several_scopes_are_asked_for_at_once_and_none_means_none(self, memory: MemoryStore) -> None:
        for scope in ("", "project:a", "project:b", "session:1"):
            memory.remember(draft(f"The tide of {scope or 'all'}.", scope=scope))
        assert set(asked(memory, "tide", scopes=("", "project:b"))) == {"The tide of all.", "The tide of project:b."}
        assert asked(memory, "tide", scopes=()) == []
        assert len(asked(memory, "tide", scopes=None)) == 4

    def test_the_neighbours_of_a_turn_help_to_find_it(self, memory: MemoryStore) -> None:
        self.needs(NEIGHBOURS)
        turns = ("Where did you buy the telescope?", "At the shop on Bridge Street.", "Is it expensive?")
        memory.remember_many(
            [
                draft(text, thread="talk-1", speaker=("Ann", "Bob")[number % 2], at=hours(number))
                for number, text in enumerate(turns)
            ]
        )
        memory.remember_many([draft(f"Unrelated remark number {number}.") for number in range(5)])
        found = asked(memory, "telescope", k=3)
        assert found[0] == turns[0]
        assert turns[1] in found

    def test_feedback_moves_a_memory_up_and_down(self, memory: MemoryStore) -> None:
        first, second = memory.remember_many(
            [draft("The mill grinds on Tuesdays.", at=hours(0)), draft("The mill grinds on Tuesdays.", at=hours(0))]
        )
        for _ in range(3):
            memory.feedback(second, helped=True)
        assert [one.memory.id for one in memory.recall(Query("mill grinds"))] == [second, first]
        for _ in range(3):
            memory.feedback(second, helped=False)
            memory.feedback(first, helped=True)
        assert [one.memory.id for one in memory.recall(Query("mill grinds"))] == [first, second]

    def test_what_is_pinned_comes_by_importance_and_scope(self, memory: MemoryStore) -> None:
        low = memory.remember(draft("Low.", importance=0.1, pinned=True))
        high = memory.remember(draft("High.", importance=0.9, pinned=True, scope="project:a"))
        wary = memory.remember(draft("Wary.", importance=0.5, pinned=True, tier=Tier.QUARANTINE))
        plain = memory.remember(draft("Plain."))
        assert [one.id for one in memory.pinned(["", "project:a"])] == [high.id, wary.id, low.id]
        assert [one.id for one in memory.pinned([""])] == [wary.id, low.id]
        assert [one.id for one in memory.pinned([""], Tier.TRUSTED)] == [low.id]
        assert list(memory.pinned([])) == []
        assert memory.pin(plain.id).pinned
        assert not memory.pin(high.id, on=False).pinned
        assert {one.id for one in memory.pinned(["", "project:a"])} == {low.id, wary.id, plain.id}
        memory.forget(low.id)
        assert low.id not in {one.id for one in memory.pinned([""])}
