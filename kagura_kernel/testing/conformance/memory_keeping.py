"""What every memory promises of what it keeps (whole, durable, never by halves), and of what it finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest

from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.memory import LESSON, MOST_TEXT, NOTE, Author, Query, Source, Tier
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.memory_rig import (
    AGENT,
    ANY_MOMENT,
    IDS,
    NEIGHBOURS,
    START,
    MemoryRig,
    UsesMemory,
    asked,
    draft,
    hours,
)

# ruff: noqa: D102, S101, PLR2004 - a test's name is its sentence, and a suite asserts; pytest runs it, never python -O


_SCRIPTS = {
    "German": "Die Straße über den Fluß ist gesperrt; Größe prüfen.",
    "Japanese": "デプロイ後にキャッシュサーバーが落ちた。再起動で直った。",
    "half-width kana": "ｷｬｯｼｭｻｰﾊﾞｰ ｦ ｻｲｷﾄﾞｳ",
    "Chinese": "部署之后缓存服务器崩溃了",
    "Korean": "배포 후 캐시 서버가 죽었습니다",
    "Russian": "После развёртывания кэш-сервер упал",
    "Greek": "Ο διακομιστής έπεσε μετά την ανάπτυξη",
    "Arabic": "تعطل خادم التخزين المؤقت بعد النشر",
    "Hebrew": "שרת המטמון קרס לאחר הפריסה",
    "Hindi": "परिनियोजन के बाद कैश सर्वर बंद हो गया",
    "Thai": "เซิร์ฟเวอร์แคชล่มหลังการติดตั้ง",
    "emoji": "The cache server fell over 🔥👩‍💻🇯🇵 after the deploy",
    "combining": "Cafe\u0301 and nai\u0308ve, decomposed",
    "mathematics": "∀ε>0 ∃δ: |x−a|<δ ⇒ |f(x)−L|<ε",
    "beyond the first plane": "𠮷野家 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010fffd",
    "white space": "  two\tlines\r\n\r\nand \u00a0 more\u2028here  ",
    "controls": "a\x01b\x1b[31mc\x7f",
}
_WRONG: dict[str, dict[str, Any]] = {
    "nothing": {"text": ""},
    "blanks": {"text": " \n\t "},
    "too long": {"text": "x" * (MOST_TEXT + 1)},
    "NUL": {"text": "a\0b"},
    "half a character": {"text": "a\ud800b"},
    "NUL in the summary": {"summary": "a\0b"},
    "half a character in a name": {"source": Source(Author.HUMAN, "A\udc00a")},
    "a type with capitals": {"type": "Lesson"},
    "a tag with blanks": {"tags": ("two words",)},
    "too many tags": {"tags": tuple(f"tag-{number}" for number in range(33))},
    "importance beyond one": {"importance": 1.5},
    "importance that is no number": {"importance": float("nan")},
    "a moment without a zone": {"at": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is what is wrong
    "an end without a zone": {"expires_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - likewise
    "data that is no JSON": {"data": {"a": object()}},
    "a summary too long": {"summary": "x" * 501},
}


class MemoryKeepingConformance(UsesMemory):
    """remember, remember_many, reference, and what is refused."""

    def test_a_memory_comes_back_as_it_was_told(self, memory: MemoryStore) -> None:
        told = draft(
            "Rotate the signing key\nbefore the release.",
            source=AGENT,
            tier=Tier.QUARANTINE,
            type=LESSON,
            summary="Rotate the signing key first",
            tags=("release", "keys", "release"),
            importance=0.75,
            scope="project:atlas",
            thread="talk-1",
            speaker="Caroline",
            at=datetime(2025, 12, 24, 9, 30, 1, 250_000, tzinfo=timezone(timedelta(hours=9))),
            expires_at=hours(48),
            pinned=True,
            data={"exit": 3, "path": ["a", {"b": None}], "ratio": 0.5, "日本": "\u0001"},
        )
        kept = memory.remember(told)
        assert kept.id
        assert (kept.text, kept.source, kept.tier, kept.type) == (told.text, AGENT, Tier.QUARANTINE, LESSON)
        assert (kept.summary, kept.tags, kept.importance) == (told.summary, ("keys", "release"), 0.75)
        assert (kept.scope, kept.thread, kept.speaker) == ("project:atlas", "talk-1", "Caroline")
        assert kept.at == told.at
        assert kept.at.tzinfo is not None
        assert (kept.expires_at, kept.pinned, kept.data) == (hours(48), True, dict(told.data))
        assert (kept.promoted_by, kept.helped, kept.misled, kept.forgotten_at) == ("", 0, 0, None)
        assert memory.reference(kept.id) == kept

    def test_what_is_left_out_has_its_default(self, memory: MemoryStore) -> None:
        kept = memory.remember(draft("The deploy needs two approvals."))
        assert (kept.at, kept.created_at) == (START, START)
        assert kept.summary == "The deploy needs two approvals."
        assert (kept.tags, kept.scope, kept.thread, kept.pinned, kept.expires_at) == ((), "", "", False, None)

    @pytest.mark.parametrize("script", _SCRIPTS)
    def test_text_of_every_script_is_kept_to_the_letter(self, memory: MemoryStore, script: str) -> None:
        kept = memory.remember(draft(_SCRIPTS[script], summary="In a script of the world"))
        assert memory.reference(kept.id).text == _SCRIPTS[script]

    def test_the_longest_text_is_kept_whole_and_found(self, memory: MemoryStore) -> None:
        long = " ".join(f"word{number}" for number in range(20_000))[: MOST_TEXT - 10] + " quetzal"
        kept = memory.remember(draft(long))
        memory.remember(draft("Nothing of the kind."))
        assert memory.reference(kept.id).text == long
        assert asked(memory, "word17") == [long]

    def test_the_longest_text_without_blanks_is_kept_whole(self, memory: MemoryStore) -> None:
        wide = "".join(chr(0x4E00 + number % 20_000) for number in range(MOST_TEXT))
        assert memory.reference(memory.remember(draft(wide)).id).text == wide
        narrow = "x" * MOST_TEXT
        assert memory.reference(memory.remember(draft(narrow)).id).text == narrow

    @pytest.mark.parametrize("wrong", _WRONG)
    def test_a_wrong_draft_is_refused_and_nothing_is_kept(self, memory: MemoryStore, wrong: str) -> None:
        with pytest.raises(MemoryInvalid) as refusal:
            memory.remember(replace(draft("Fine."), **_WRONG[wrong]))
        assert len(refusal.value.problems) == 1
        assert memory.counts().memories == 0

    def test_everything_that_is_wrong_is_told_at_once(self, memory: MemoryStore) -> None:
        with pytest.raises(MemoryInvalid) as refusal:
            memory.remember(draft("", type="Bad Type", importance=-1, tags=("no tag",)))
        assert len(refusal.value.problems) == 4

    def test_a_draft_whose_id_is_there_already_changes_nothing(self, memory: MemoryStore) -> None:
        self.needs(IDS)
        first = memory.remember(draft("The first text.", id="mem-0000000000first"))
        assert first.id == "mem-0000000000first"
        assert memory.remember(draft("Another text.", id=first.id)) == first
        assert list(memory.remember_many([draft("A third.", id=first.id)])) == [first.id]
        assert memory.reference(first.id).text == "The first text."
        assert memory.counts().memories == 1

    def test_many_are_kept_in_their_order(self, memory: MemoryStore) -> None:
        drafts = [draft(f"Entry number {number} of the log.") for number in range(25)]
        ids = list(memory.remember_many(iter(drafts)))
        assert len(set(ids)) == 25
        assert [memory.reference(one).text for one in ids] == [one.text for one in drafts]
        assert list(memory.remember_many([])) == []

    def test_of_many_all_are_kept_or_none(self, memory: MemoryStore) -> None:
        drafts = [draft("One."), draft(""), draft("Three."), draft("Four.", importance=7)]
        with pytest.raises(MemoryInvalid) as refusal:
            memory.remember_many(drafts)
        assert len(refusal.value.problems) == 2
        assert "2" in refusal.value.problems[0]
        assert "4" in refusal.value.problems[1]
        assert memory.counts().memories == 0

    def test_a_source_of_drafts_that_breaks_leaves_nothing(self, memory: MemoryStore) -> None:
        def broken() -> Any:
            yield draft("One.")
            raise RuntimeError("the file ended")

        with pytest.raises(RuntimeError, match="the file ended"):
            memory.remember_many(broken())
        assert memory.counts().memories == 0

    def test_an_id_that_is_not_there_is_unknown_to_every_method(self, memory: MemoryStore) -> None:
        gone = "mem-00000000-0000-4000-8000-000000000000"
        for ask in (
            memory.reference,
            memory.forget,
            memory.restore,
            memory.erase,
            memory.pin,
            memory.demote,
            memory.explore,
            lambda one: memory.feedback(one, helped=True),
            lambda one: memory.promote(one, by="Ada"),
        ):
            with pytest.raises(MemoryUnknown) as refusal:
                ask(gone)
            assert refusal.value.memory_id == gone

    @pytest.mark.parametrize("odd", ["", "'; DROP TABLE memories; --", "mem-%", "../../etc/passwd", "a\0b", "\ud800"])
    def test_an_id_that_could_not_be_is_unknown_too(self, memory: MemoryStore, odd: str) -> None:
        memory.remember(draft("Still here."))
        with pytest.raises(MemoryUnknown):
            memory.reference(odd)
        with pytest.raises(MemoryUnknown):
            memory.forget(odd)
        assert memory.counts().memories == 1

    def test_what_was_kept_is_there_when_the_store_is_opened_again(self, rig: MemoryRig, memory: MemoryStore) -> None:
        kept = memory.remember(draft("Durable.", pinned=True))
        again = rig.reopen()
        assert again.reference(kept.id) == kept
        memory.close()
        assert [one.id for one in again.pinned([""])] == [kept.id]

    async def test_what_has_expired_is_found_no_more(self, memory: MemoryStore, clock: FakeClock) -> None:
        short = memory.remember(draft("The freeze of the release ends today.", expires_at=hours(1), pinned=True))
        memory.remember(draft("The release needs a tag."))
        assert len(asked(memory, "release")) == 2
        await clock.advance(3_599)
        assert len(asked(memory, "release")) == 2
        await clock.advance(1)
        assert asked(memory, "release") == ["The release needs a tag."]
        assert asked(memory, "") == ["The release needs a tag."]
        assert list(memory.pinned([""])) == []
        assert memory.reference(short.id).expires_at == hours(1)

    def test_the_store_says_that_it_is_ready_and_where_it_is(self, memory: MemoryStore) -> None:
        memory.check()
        assert memory.where

    def test_the_end_of_a_block_closes_it(self, memory: MemoryStore) -> None:
        with memory as same:
            assert same is memory
            memory.check()
        with pytest.raises(MemoryUnavailable):
            memory.check()

    def test_a_closed_store_is_unavailable_and_may_be_closed_again(self, memory: MemoryStore) -> None:
        memory.close()
        memory.close()
        with pytest.raises(MemoryUnavailable):
            memory.check()
        with pytest.raises(MemoryUnavailable):
            memory.remember(draft("Too late."))

    def test_moments_are_told_in_utc(self, memory: MemoryStore) -> None:
        east = timezone(timedelta(hours=9))
        kept = memory.remember(draft("At noon in Tokyo.", at=datetime(2026, 3, 1, 12, tzinfo=east)))
        assert kept.at == datetime(2026, 3, 1, 3, tzinfo=UTC)
        assert kept.at.utcoffset() == timedelta(0)
        assert memory.reference(kept.id).at.utcoffset() == timedelta(0)


# ruff: noqa: D102, S101, PLR2004 - a test's name is its sentence, and a suite asserts; pytest runs it, never python -O


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

    def test_tags_have_letters_of_any_script_large_and_small_alike(self, memory: MemoryStore) -> None:
        told = ("Umsatz-Q3", "顧客", "ग्राहक", "cafe\N{COMBINING ACUTE ACCENT}")
        kept = memory.remember(draft("Of the harbour.", tags=told))
        assert set(kept.tags) == {"umsatz-q3", "顧客", "ग्राहक", "café"}
        for tag in ("UMSATZ-q3", "顧客", "ग्राहक", "Café"):
            assert [one.memory.id for one in memory.recall(Query("", 5, tags=(tag,)))] == [kept.id]

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
