"""What a person does with memories: each change is one fact in the journal, which never holds what a memory says."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.cockpit.memory import MemoryDesk, MemoryServices
from kagura_kernel.cockpit.memory_words import imported_line
from kagura_kernel.domain.errors import JournalUnwritable, NotThisTime
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.memory import FIXES, LESSON, Author, Draft, Edge, Query, Source, Tier
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.redactors import shared_redactor

ADA = {"by": "ada", "via": "command"}


@pytest.fixture
def memory():
    return FakeMemory(clock=FakeClock())


@pytest.fixture
def journal(tmp_path):
    journal = Journal.open(tmp_path / "home", clock=FakeClock())
    yield journal
    journal.close()


@pytest.fixture
def desk(memory, journal, tmp_path):
    around = MemoryServices(
        lambda: memory, lambda: journal, FakeClock(), tmp_path / "home", shared_redactor(), lambda: "ses-1"
    )
    return MemoryDesk(around)


def left(memory, text, **fields):
    """A memory that an agent left; its id."""
    return memory.remember(Draft(text, Source(Author.AGENT, "default", "run-1"), **fields)).id


def told(journal):
    """What the journal was told: change, memory, how many, by whom."""
    rows = [row.event for row in journal.events(kinds=("memory.changed",))]
    assert {(row.run_id, row.session_id, row.via) for row in rows} <= {("", "ses-1", "command")}
    return [(row.change, row.memory_id, row.memories, row.by) for row in rows]


def test_what_a_person_says_is_theirs_and_trusted_whatever_the_draft_claims(desk, journal):
    memory = desk.remember(Draft("Sales are in EUR.", Source(Author.AGENT, "eve"), tier=Tier.QUARANTINE), **ADA)
    assert (memory.tier, memory.source.author, memory.source.by) == (Tier.TRUSTED, Author.HUMAN, "ada")
    assert [one.memory.id for one in desk.recall(Query("sales"))] == [memory.id]
    assert told(journal) == [("written", memory.id, 1, "ada")]


def test_a_secret_never_gets_into_a_memory(desk):
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    draft = Draft(f"Use {secret}.", Source(Author.HUMAN), summary=f"Key {secret}", data={"key": secret})
    memory = desk.remember(draft, **ADA)
    assert secret not in repr(memory)
    assert "[REDACTED:" in memory.text


@pytest.mark.parametrize(
    ("act", "change", "before", "after"),
    [
        ("promote", "promoted", {}, {"tier": Tier.TRUSTED}),
        ("demote", "demoted", {"tier": Tier.TRUSTED}, {"tier": Tier.QUARANTINE}),
        ("pin", "pinned", {}, {"pinned": True}),
        ("unpin", "unpinned", {"pinned": True}, {"pinned": False}),
    ],
    ids=["promote", "demote", "pin", "unpin"],
)
def test_a_change_is_made_and_told_once_however_often_it_is_asked_for(
    desk, memory, journal, act, change, before, after
):
    one = left(memory, "Deploy on Fridays.", **before)
    [(name, value)] = after.items()
    assert [getattr(found, name) for found in desk.change(act, [one, one], **ADA)] == [value]
    desk.change(act, [one], **ADA)
    assert getattr(memory.reference(one), name) == value
    assert told(journal) == [(change, one, 1, "ada")]


def test_what_is_forgotten_is_not_recalled_and_comes_back_when_it_is_restored(desk, memory, journal):
    one = left(memory, "Deploy on Fridays.")
    desk.change("forget", [one], **ADA)
    assert desk.recall(Query("deploy")) == []
    assert desk.show(one).forgotten_at is not None
    desk.change("restore", [one], **ADA)
    assert [found.memory.id for found in desk.recall(Query("deploy"))] == [one]
    assert [row[0] for row in told(journal)] == ["forgotten", "restored"]


def test_nothing_is_changed_when_one_of_several_is_not_there(desk, memory, journal):
    one = left(memory, "Deploy on Fridays.")
    with pytest.raises(MemoryUnknown):
        desk.change("promote", [one, "mem-none"], **ADA)
    assert memory.reference(one).tier is Tier.QUARANTINE
    assert told(journal) == []


def test_a_journal_that_cannot_be_written_leaves_every_memory_as_it_was(desk, memory, journal):
    one = left(memory, "Deploy on Fridays.")
    journal.close()
    for act in (
        lambda: desk.change("promote", [one], **ADA),
        lambda: desk.erase([one], cascade=True, **ADA),
        lambda: desk.remember(Draft("More.", Source(Author.HUMAN)), **ADA),
        lambda: desk.import_lines(desk.export_lines(), trusting=False, **ADA),
    ):
        with pytest.raises(JournalUnwritable):
            act()
    assert memory.reference(one).tier is Tier.QUARANTINE
    assert memory.counts().memories == 1


def test_a_memory_that_cannot_be_reached_is_told_and_nothing_is_written_down(desk, memory, journal):
    one = left(memory, "Deploy on Fridays.")
    memory.broken = "the disk is gone"
    for act in (lambda: desk.change("promote", [one], **ADA), lambda: desk.recall(Query("x")), desk.counts):
        with pytest.raises(MemoryUnavailable, match="the disk is gone"):
            act()
    assert told(journal) == []


def test_lines_come_in_all_or_none_without_trust_and_without_secrets(desk, memory, journal):
    lines = [
        '{"v":1,"kind":"memory","id":"mem-a","text":"password = hunter2hunter2","tier":"trusted"}',
        '{"v":1,"kind":"memory","id":"mem-b","text":"Two."}',
        '{"v":1,"kind":"edge","source":"mem-b","target":"mem-a","type":"supports"}',
    ]
    with pytest.raises(MemoryInvalid, match="line 4"):
        desk.import_lines([*lines, "{"], trusting=False, **ADA)
    assert memory.counts().memories == 0
    found = desk.import_lines(lines, trusting=False, **ADA)
    assert (found.memories, found.edges) == (("mem-a", "mem-b"), 1)
    kept = memory.reference("mem-a")
    assert kept.tier is Tier.QUARANTINE
    assert "hunter2" not in kept.text
    assert told(journal) == [("imported", "mem-a", 2, "ada")]
    assert desk.import_lines([], trusting=True, **ADA).memories == ()
    assert len(told(journal)) == 1


def test_no_field_of_an_imported_memory_holds_a_secret_and_it_is_told(desk, memory):
    secret, spelt = "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "glpat-9fj3kd02lq8xzvbn41ty"
    fields = {"text": "Two.", "tags": ["deploy", spelt], "source": {"by": secret, "uri": f"https://u:{secret}@h/x"}}
    lines = [
        json.dumps({"v": 1, "kind": "memory", "id": "mem-a", "text": "One."}),
        json.dumps({"v": 1, "kind": "memory", "id": "mem-b", **fields}),
    ]
    found = desk.import_lines(lines, trusting=False, **ADA)
    kept = memory.reference("mem-b")
    assert kept.tags == ("deploy",)
    assert secret not in repr(kept)
    assert spelt not in repr(kept)
    assert "What looks like a secret was taken out of 1." in imported_line(found, trusting=False)
    again = desk.import_lines(lines, trusting=False, **ADA)
    assert "secret" not in imported_line(again, trusting=False)


def test_what_a_file_says_for_memories_that_are_here_is_left_out_and_told(desk, memory):
    own = left(memory, "Deploy on Fridays.")
    lines = [
        '{"v":1,"kind":"memory","id":"mem-evil","text":"Evil."}',
        json.dumps({"v": 1, "kind": "edge", "source": own, "target": "mem-evil", "type": "came-from"}),
    ]
    found = desk.import_lines(lines, trusting=False, **ADA)
    assert "1 edge left out: without --trust" in imported_line(found, trusting=False)
    assert desk.would_erase(["mem-evil"], cascade=True).ids == ("mem-evil",)
    believed = desk.import_lines(lines, trusting=True, **ADA)
    assert "left out" not in imported_line(believed, trusting=True)
    assert set(desk.would_erase(["mem-evil"], cascade=True).ids) == {"mem-evil", own}


def test_trust_in_a_file_is_kept_only_when_a_person_says_so(desk, memory):
    desk.import_lines(['{"v":1,"kind":"memory","id":"mem-a","text":"One","tier":"trusted"}'], trusting=True, **ADA)
    assert memory.reference("mem-a").tier is Tier.TRUSTED


def test_what_is_exported_is_taken_in_by_another_memory(desk, memory, journal, tmp_path):
    one, two = left(memory, "One.", tier=Tier.TRUSTED), left(memory, "Two.", tags=("b",))
    memory.create_edge(Edge(two, one, "supports"))
    other = FakeMemory()
    around = MemoryServices(lambda: other, lambda: journal, FakeClock(), tmp_path, BlindRedactor())
    MemoryDesk(around).import_lines(desk.export_lines(), trusting=True, **ADA)
    assert {other.reference(id_).text: other.reference(id_).tier for id_ in (one, two)} == {
        "One.": Tier.TRUSTED,
        "Two.": Tier.QUARANTINE,
    }
    assert other.counts().edges == 1


def test_a_lesson_is_found_with_what_mended_it(desk, memory):
    lesson = left(memory, "`make` failed.", type=LESSON, data={"kind": "command", "trigger": "`make`: exit 2"})
    fix = left(memory, "Install cmake.", type="fix", data={"fix": "apt install cmake"})
    memory.create_edge(Edge(fix, lesson, FIXES))
    left(memory, "`make` is a program.")
    [found] = desk.lessons("make")
    assert (found.memory.id, found.failure.trigger, found.failure.fix) == (
        lesson,
        "`make`: exit 2",
        "apt install cmake",
    )
    assert [one.memory.id for one in desk.lessons()] == [lesson]


def test_the_cockpit_has_a_desk_where_it_has_a_memory(tmp_path, memory):
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), memory=memory)
    without = fake_cockpit(tmp_path / "other", backend=FakeBackend())
    try:
        one = cockpit.memory.remember(Draft("Two.", Source(Author.HUMAN), at=datetime.now(UTC) - timedelta(1)), **ADA)
        [row] = cockpit.journal.events(kinds=("memory.changed",))
        assert (row.event.memory_id, row.event.session_id) == (one.id, cockpit.session_id)
        with pytest.raises(NotThisTime):
            _ = without.memory
    finally:
        cockpit.close()
        without.close()
