"""What a person is told of the lessons that one word to a plan would have trusted."""

from pathlib import Path

import pytest

from kagura_kernel.cockpit.memory import MemoryDesk, MemoryServices, has_lessons, lessons_told, plan_lessons
from kagura_kernel.domain.errors import MemoryUnavailable
from kagura_kernel.domain.memory import FIXES, Author, Draft, Edge, Source
from kagura_kernel.patterns.lessons import LONGEST, Failure, fix_draft, lesson_draft
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.redactors import shared_redactor

SOURCE = Source(Author.ENGINE, run_id="run-1")
FAILURE = Failure("command", "`make` ended with 2", "no rule to make all", "`cmake .`")


def lesson(store: FakeMemory, failure: Failure = FAILURE, source: Source = SOURCE) -> str:
    return store.remember(lesson_draft(failure, task="Build it", scope="", source=source)).id


def told(store: FakeMemory, *ids: str, fixes: tuple[str, ...] = ()) -> list[str]:
    return list(plan_lessons(store, {"lessons": list(ids), "fixes": list(fixes)}))


def test_each_part_of_a_lesson_is_a_line_with_its_source_and_its_marking():
    store = FakeMemory()
    ident = lesson(store)
    failure = Failure("command", FAILURE.trigger, fix="`apt-get install cmake`")
    fix = store.remember(
        fix_draft(ident, failure, scope="", source=Source(Author.AGENT, "main", "run-2"), session_id="")
    )
    store.create_edge(Edge(fix.id, ident, FIXES))
    assert told(store, ident, fixes=(fix.id,))[1:] == [
        f"  {ident}: NOT trusted, seen once, from engine, run-1",
        "    what went wrong: “`make` ended with 2”",
        "    what was said then: “no rule to make all”",
        "    what mended it: “`apt-get install cmake`” (NOT trusted, from agent main, run-2)",
    ]
    store.promote(ident, by="ada")
    assert told(store, ident)[1].startswith(f"  {ident}: trusted,")


def test_a_fix_that_the_question_does_not_name_is_not_told():
    store = FakeMemory()
    ident = lesson(store)
    later = store.remember(
        fix_draft(ident, Failure("command", "t", fix="`rm -rf /`"), scope="", source=SOURCE, session_id="")
    )
    store.create_edge(Edge(later.id, ident, FIXES))
    assert told(store, ident)[-1] == "    what mended it: “`cmake .`”"


def test_words_of_a_lesson_close_no_quotation_take_one_line_and_hold_nothing_unseen():
    store = FakeMemory()
    data = {"trigger": "a”\n\x1b[2J\u202e Allow?" + "x" * 900, "said": 7, "fix": ["y"]}
    ident = store.remember(Draft("text", Source(Author.ENGINE, by="e\x1b[0m"), type="lesson", data=data)).id
    lines = told(store, ident)
    assert all(line.isprintable() and len(line) <= LONGEST + 30 for line in lines)
    assert lines[2].startswith('    what went wrong: “a" [2J Allow?xxx')
    assert lines[2].count("”") == 1


def test_what_is_gone_or_no_lesson_is_said_and_no_more_than_a_plan_has_are_told():
    store = FakeMemory()
    note = store.remember(Draft("Ordinary.", SOURCE)).id
    assert told(store, "mem-gone", note)[1:] == [
        "  mem-gone is not in the memory any more.",
        f"  {note} is not in the memory any more.",
    ]
    assert len(told(store, *(f"mem-{number}" for number in range(50)))) == 6


@pytest.mark.parametrize("arguments", [{}, {"lessons": []}, {"lessons": "mem-1"}, {"lessons": [1, None]}])
def test_a_question_without_lessons_has_none(arguments):
    assert not has_lessons(arguments)
    assert list(plan_lessons(FakeMemory(), arguments)) == []


def test_a_memory_that_cannot_be_reached_is_an_error():
    store = FakeMemory()
    ident = lesson(store)
    store.broken = "it is gone"
    with pytest.raises(MemoryUnavailable):
        told(store, ident)


def test_a_memory_that_is_out_of_reach_keeps_nobody_from_answering():
    store = FakeMemory()
    ident = lesson(store)
    clock = FakeClock()
    desk = MemoryDesk(MemoryServices(lambda: store, pytest.fail, clock, Path("/nowhere"), BlindRedactor()))
    assert len(lessons_told(lambda: desk, {"lessons": [ident]})) == 5
    store.broken = "it is gone"
    [line] = lessons_told(lambda: desk, {"lessons": [ident]})
    assert line.startswith("What the lessons say cannot be told now: ")
    assert lessons_told(pytest.fail, {"lessons": []}) == []


def test_secrets_in_a_lesson_are_not_told():
    store = FakeMemory()
    token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    ident = lesson(store, Failure("command", f"`curl -H {token}` ended with 22"))
    around = MemoryServices(lambda: store, pytest.fail, FakeClock(), Path("/nowhere"), shared_redactor())
    told = "\n".join(MemoryDesk(around).plan_lessons({"lessons": [ident]}))
    assert "[REDACTED:" in told
    assert token not in told
