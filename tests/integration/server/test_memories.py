"""Memories over HTTP: found, read, trusted, pinned, forgotten and erased, each change with its row in the journal."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events.memory import MemoryChanged
from kagura_kernel.domain.memory import CAME_FROM, FIXES, LESSON, OUTCOME, PREVENTS, Author, Draft, Edge, Source, Tier
from kagura_kernel.domain.patterns import Checkpoint
from kagura_kernel.journal import checkpoints
from kagura_kernel.memory.location import FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.testing.patience import eventually
from tests.integration.server.test_events import heard  # noqa: F401 - a fixture
from tests.support.sample_run import SampleRun

pytestmark = pytest.mark.usefixtures("told")

_numbers = count(1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
AGENT = Source(Author.AGENT, "claude", "run-1")


@pytest.fixture
def journal(server):
    """The journal, as a kernel has it open."""
    with closing(server.journal()) as opened:
        yield opened


@pytest.fixture
def memory(server):
    """The memory, as a kernel has it open; empty."""
    with closing(SqliteMemory(server.home / FILE)) as opened:
        for one in [one for one in opened.export() if not isinstance(one, Edge)]:
            opened.erase(one.id)
        yield opened


@pytest.fixture
def last(journal):
    """The newest change of a memory that the journal tells of."""
    return lambda: [stored.event for stored in journal.events(kinds=["memory.changed"])][-1]


def a_draft(text="The deploy needs the tunnel", **more):
    number = next(_numbers)
    return replace(Draft(text, AGENT, id=f"mem-{number}", at=NOON + timedelta(minutes=number)), **more)


def ids(page):
    return [item["id"] for item in page["items"]]


# ------------------------------------------------------------------- looking


def test_without_words_the_newest_come_first_and_with_words_what_fits(server, memory):
    old = memory.remember(a_draft("Bananas are yellow", tags=("fruit",), tier=Tier.TRUSTED))
    new = memory.remember(a_draft("The tunnel of the deploy is closed at night"))
    listed = server.get("memories")
    assert (ids(listed), listed["next"]) == ([new.id, old.id], None)
    assert [(item["score"], item["why"]) for item in listed["items"]] == [(None, []), (None, [])]
    (found,) = server.get("memories?q=yellow+banana")["items"]
    assert (found["id"], found["tier"], found["tags"]) == (old.id, "trusted", ["fruit"])
    assert 0 < found["score"] <= 1
    assert "yellow" in found["why"]


def test_pages_of_the_newest_go_on_where_they_ended_even_among_memories_of_one_moment(server, memory):
    moments = [NOON] * 5 + [NOON + timedelta(minutes=1)] * 4 + [NOON + timedelta(minutes=2)]
    memory.remember_many(a_draft(f"number {number}", at=at) for number, at in enumerate(moments))
    whole = ids(server.get("memories"))
    found, cursor = [], ""
    while cursor is not None:
        page = server.get(f"memories?k=3&before={cursor}")
        found += ids(page)
        cursor = page["next"]
    assert found == whole
    assert len(set(whole)) == 10


def test_a_memory_is_told_in_full_with_what_it_is_joined_to(server, memory):
    text = "A first line\n" + "x" * 60_000
    lesson = memory.remember(a_draft(text, type=LESSON, data={"trigger": "exit 3"}))
    outcome = memory.remember(a_draft("The run failed", type="outcome"))
    memory.create_edge(Edge(lesson.id, outcome.id, PREVENTS))
    found = server.get(f"memories/{lesson.id}")
    assert (found["text"], found["data"]) == (text, {"trigger": "exit 3"})
    (neighbour,) = found["neighbours"]
    assert (neighbour["id"], neighbour["edge"], neighbour["away"]) == (outcome.id, PREVENTS, True)
    (back,) = server.get(f"memories/{outcome.id}")["neighbours"]
    assert (back["id"], back["away"]) == (lesson.id, False)


def test_an_id_that_was_imported_is_found(server, memory):
    memory.remember(a_draft(id="notes:2026-03-01_a.b"))
    assert server.get("memories/notes:2026-03-01_a.b")["id"] == "notes:2026-03-01_a.b"


def test_lessons_say_what_went_wrong_and_what_prevents_it(server, memory):
    memory.remember(a_draft("Not a lesson about make"))
    facts = {"trigger": "make: no rule", "said": "Stop.", "fix": "run cmake", "tool": "bash", "task": "build it"}
    lesson = memory.remember(a_draft("make failed", type=LESSON, data=facts))
    bare = memory.remember(a_draft("something about pytest", type=LESSON))
    listed = server.get("lessons")["items"]
    assert [item["id"] for item in listed] == [bare.id, lesson.id]
    assert (listed[0]["trigger"], listed[0]["fix"]) == ("", "")
    (found,) = server.get("lessons?q=make")["items"]
    assert {name: found[name] for name in facts} == facts
    assert found["seen"] == 1


def test_a_lesson_is_told_with_its_newest_fix_and_with_how_often_it_was_needed(server, memory):
    lesson = memory.remember(a_draft("make failed", type=LESSON, data={"trigger": "make: no rule", "fix": 3}))
    for fix in ("run cmake", "run ./configure first"):
        mended = memory.remember(a_draft(fix, type="fix", data={"fix": fix}))
        memory.create_edge(Edge(mended.id, lesson.id, FIXES))
        memory.create_edge(Edge(lesson.id, memory.remember(a_draft("It failed", type=OUTCOME)).id, PREVENTS))
    (found,) = server.get("lessons")["items"]
    assert (found["fix"], found["seen"]) == ("run ./configure first", 2)
    memory.promote(lesson.id, by="ada")
    (found,) = server.get("lessons")["items"]
    assert found["fix"] == "(not trusted) run ./configure first"
    memory.promote(mended.id, by="ada")
    (found,) = server.get("lessons")["items"]
    assert found["fix"] == "run ./configure first"


def test_the_numbers_say_how_much_is_remembered_and_where(server, memory):
    memory.remember(a_draft(tier=Tier.TRUSTED))
    memory.forget(memory.remember(a_draft()).id)
    told = server.get("memories/counts")
    assert (told["memories"], told["quarantined"], told["forgotten"]) == (1, 0, 1)
    assert told["where"] == str(server.home / FILE)


# ------------------------------------------------------------------ changing


@pytest.mark.parametrize(
    ("deed", "undo", "field", "value", "rows"),
    [
        ("promote", "demote", "tier", "trusted", ("promoted", "demoted")),
        ("pin", "unpin", "pinned", True, ("pinned", "unpinned")),
    ],
)
def test_what_a_person_does_to_a_memory_is_done_and_written_down(server, memory, last, deed, undo, field, value, rows):
    one = memory.remember(a_draft())
    before = server.get(f"memories/{one.id}")[field]
    answer = server.ask("POST", f"memories/{one.id}/{deed}")
    assert (answer.status, answer.json["memory"][field]) == (200, value)
    assert server.get(f"memories/{one.id}")[field] == value
    told = last()
    assert (told.memory_id, told.change, told.via, told.run_id) == (one.id, rows[0], "sidebar", "")
    assert told.by
    assert not told.by.startswith("Anonymous")
    assert server.ask("POST", f"memories/{one.id}/{undo}").json["memory"][field] == before
    assert last().change == rows[1]


def test_whoever_promotes_stands_in_the_memory(server, memory, last):
    one = memory.remember(a_draft())
    server.ask("POST", f"memories/{one.id}/promote")
    assert memory.reference(one.id).promoted_by == last().by


def test_erasing_tells_first_what_would_go_and_leaves_nothing_of_it(server, journal, memory, last):
    secret = "the word is heliotrope"
    root = memory.remember(a_draft(secret))
    child = memory.remember(a_draft(f"Because {secret}", type="outcome"))
    kept = memory.remember(a_draft("Something else"))
    memory.create_edge(Edge(child.id, root.id, CAME_FROM))
    memory.create_edge(Edge(kept.id, root.id))
    checkpoints.store(
        journal,
        Checkpoint(
            run_id="run-1", step=1, session_id="ses-1", at=SystemClock().now(), task=secret, memories=(root.id,)
        ),
    )
    goes = server.get(f"memories/{root.id}/grown")
    assert {one["id"] for one in goes["memories"]} == {root.id, child.id}
    assert (goes["edges"], goes["checkpoints"], goes["runs"]) == (2, 1, ["run-1"])
    assert memory.reference(root.id)

    answer = server.ask("DELETE", f"memories/{root.id}?cascade=true")
    assert (answer.status, set(answer.json["memories"])) == (200, {root.id, child.id})
    assert (answer.json["edges"], answer.json["checkpoints"]) == (2, 1)
    told = last()
    assert (told.change, told.memories, told.edges, told.checkpoints, told.via) == ("erased", 2, 2, 1, "sidebar")
    assert (ids(server.get("memories")), checkpoints.latest(journal, "run-1")) == ([kept.id], None)
    assert server.ask("GET", f"memories/{root.id}").json["code"] == "ERR_MEMORY_UNKNOWN"


@pytest.mark.parametrize("deed", ["promote", "demote", "pin", "unpin", "forget", "restore"])
def test_what_is_not_there_cannot_be_changed(server, journal, deed):
    before = journal.last_seq()
    answer = server.ask("POST", f"memories/mem-none/{deed}")
    assert (answer.status, answer.json["code"]) == (404, "ERR_MEMORY_UNKNOWN")
    assert server.ask("POST", f"memories/mem-none/{deed}", {"why": "x"}).json["code"] == "ERR_USAGE"
    assert journal.last_seq() == before


def test_a_memory_itself_takes_no_post(server, memory):
    one = memory.remember(a_draft())
    answer = server.ask("POST", f"memories/{one.id}", described=False)
    assert (answer.status, answer.json["code"]) == (405, "ERR_METHOD")
    assert memory.reference(one.id) == one


def test_what_a_memory_says_is_never_in_the_journal(server, journal, memory):
    one = memory.remember(a_draft("heliotrope grows here"))
    for deed in ("promote", "pin", "forget"):
        server.ask("POST", f"memories/{one.id}/{deed}")
    server.ask("DELETE", f"memories/{one.id}?cascade=true")
    told = [stored.event for stored in journal.events(kinds=["memory.changed"])]
    assert {event.memory_id for event in told} >= {one.id}
    assert not any("heliotrope" in event.model_dump_json() for event in told)


# -------------------------------------------------------------------- trouble


@pytest.fixture(scope="module")
def away(start_server):
    """A server whose memory cannot be reached, and its journal."""
    server = start_server(KAGURA_MEMORY="/proc/no-such-place/memory.sqlite3")
    with closing(server.journal()) as journal:
        journal.append(SampleRun().started())
    return server


@pytest.mark.parametrize("path", ["memories", "lessons", "memories/counts", "memories/mem-1", "memories/mem-1/grown"])
def test_a_memory_that_cannot_be_reached_is_told_with_what_to_do_and_hides_nothing_else(away, path):
    answer = away.ask("GET", path)
    assert (answer.status, answer.json["code"]) == (503, "ERR_MEMORY_UNAVAILABLE")
    assert "/proc/no-such-place" in answer.json["message"]
    assert len(away.get("runs")["items"]) == 1


def test_a_memory_that_another_one_is_moved_over_is_not_mistaken_for_it(start_server, tmp_path):
    server = start_server()
    with closing(server.journal()) as journal:
        journal.append(SampleRun().started())
    for text in ("the first", "the second"):
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
            if (server.home / name).exists():
                (server.home / name).replace(tmp_path / name)
        with closing(SqliteMemory(server.home / FILE)) as memory:
            memory.remember(a_draft(text))

        assert [item["summary"] for item in server.get("memories")["items"]] == [text]


# --------------------------------------------------------------------- events


async def test_whoever_listens_is_told_that_memories_changed(heard, journal):  # noqa: F811 - the fixture
    at = SystemClock().now()
    journal.append(MemoryChanged(run_id="", session_id="", at=at, memory_id="mem-1", change="promoted"))
    await eventually(lambda: bool(heard.about("memories")))
