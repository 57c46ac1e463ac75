"""What is erased is nowhere on the disk any more, and what did not grow from it is as it was."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kagura_kernel.domain.errors.memory import MemoryUnknown
from kagura_kernel.domain.events import ChangesCollected, ChangesSettled, MemoriesSeen, RunFinished
from kagura_kernel.domain.memory import CAME_FROM, LESSON, OUTCOME, PREVENTS, Author, Draft, Edge, SeenMemory, Source
from kagura_kernel.domain.outcome import content_name
from kagura_kernel.domain.patterns import Checkpoint, Step
from kagura_kernel.journal import checkpoints
from kagura_kernel.journal.store import Journal
from kagura_kernel.memory.erasure import erase, would_erase
from kagura_kernel.memory.sqlite.store import SqliteMemory
from tests.support.sample_run import SampleRun

WORD = "quokkazanzibar"
"""A word that stands in what is erased, and nowhere else."""
SECRET = f"The launch is called {WORD}."
ADA = {"by": "ada", "via": "command"}
AT = datetime(2026, 1, 5, 12, tzinfo=UTC)


class House:
    """A data directory with a memory, a journal and contents of changed files, all of them open."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.journal = Journal.open(home)
        self.memory = SqliteMemory(home / "memory.sqlite3")
        self.contents = home / "blobs"

    def close(self) -> None:
        self.memory.close()
        self.journal.close()

    def left(self, text: str, **fields: object) -> str:
        source = Source(Author.ENGINE, run_id=str(fields.pop("run_id", "")))
        return self.memory.remember(Draft(text, source, **fields)).id  # type: ignore[arg-type]

    def stood(self, run_id: str, step: int, text: str, memories: tuple[str, ...], *changes: str) -> None:
        """Store where a run stood; its changes have these contents."""
        rows = tuple({"path": "notes.md", "status": "added", "new_sha256": self.content(one)} for one in changes)
        done = (Step("call-1", "recall", {"query": "launch"}, text),)
        one = Checkpoint(
            run_id, "ses-1", step, AT + timedelta(seconds=step), "Go on.", done, memories=memories, changes=rows
        )
        checkpoints.store(self.journal, one)

    def content(self, text: str) -> str:
        """Keep the content of a changed file; its hash."""
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        path = self.contents / content_name(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return sha256

    def files_with(self, word: str) -> list[str]:
        """Files in which it stands, logs and free pages included."""
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return sorted(path.name for path in files if word.encode() in path.read_bytes())

    def erase(self, *memory_ids: str, cascade: bool = True):
        return erase(
            self.memory, self.journal, memory_ids, cascade=cascade, contents=self.contents, session_id="ses-1", **ADA
        )


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path / "home")
    yield house
    house.close()


def grown(house: House) -> tuple[str, str, str]:
    """A memory, the summary of a run that was shown it, and a lesson of another run that was shown the summary."""
    root = house.left(SECRET, tags=("launch",))
    summary = house.left(f"Done: {SECRET}", type=OUTCOME, run_id="run-1", summary=f"Done, {WORD}")
    lesson = house.left(f"`make {WORD}` failed", type=LESSON, run_id="run-2", data={"trigger": f"make {WORD}"})
    other = house.left("Sales are in EUR.")
    for edge in (Edge(summary, root, CAME_FROM), Edge(lesson, summary, CAME_FROM), Edge(lesson, other, PREVENTS)):
        house.memory.create_edge(edge)
    return root, summary, lesson


def test_after_a_cascade_the_words_are_nowhere_on_the_disk(house):
    root, summary, lesson = grown(house)
    house.memory.forget(lesson)
    kept = house.content("nothing to hide")
    for step in (1, 2, 2, 3):
        house.stood("run-1", step, f"{SECRET} {step}", (root,), SECRET, "nothing to hide")
    house.stood("run-2", 1, f"{SECRET} again", (lesson, "mem-none"))
    house.stood("run-3", 1, "nothing", (), "nothing to hide")
    assert len(house.files_with(WORD)) >= 3
    gone = house.erase(root)
    assert set(gone.ids) == {root, summary, lesson}
    assert (gone.edges, gone.checkpoints, gone.runs) == (3, 4, ("run-1", "run-2"))
    assert house.files_with(WORD) == []
    assert (house.contents / content_name(kept)).read_text() == "nothing to hide"
    assert [one.run_id for one in checkpoints.history(house.journal, "run-3")] == ["run-3"]
    assert house.memory.counts().memories == 1
    [row] = house.journal.events(kinds=("memory.changed",))
    told = row.event
    assert (told.memory_id, told.change, told.memories, told.edges, told.checkpoints) == (root, "erased", 3, 3, 4)
    assert (told.runs, told.by, told.via, told.session_id) == (("run-1", "run-2"), "ada", "command", "ses-1")
    house.journal.verify()


def test_without_a_cascade_what_came_from_it_stays(house):
    root, summary, _ = grown(house)
    house.stood("run-1", 1, SECRET, (root,))
    house.stood("run-2", 1, "its summary", (summary,))
    gone = house.erase(root, cascade=False)
    assert (gone.ids, gone.edges, gone.checkpoints, gone.runs) == ((root,), 1, 1, ("run-1",))
    assert house.memory.reference(summary).id == summary
    assert checkpoints.latest(house.journal, "run-2") is not None


def test_a_look_says_what_would_go_and_changes_nothing(house):
    root, summary, lesson = grown(house)
    house.stood("run-1", 1, SECRET, (root,))
    before = house.journal.last_seq()
    would = would_erase(house.memory, house.journal, [root], cascade=True)
    assert would.ids == (root, summary, lesson)
    assert [one.id for one in would.memories] == list(would.ids)
    assert (would.edges, would.checkpoints, would.runs) == (3, 1, ("run-1",))
    assert house.memory.counts().memories == 4
    assert house.journal.last_seq() == before
    assert checkpoints.latest(house.journal, "run-1") is not None
    assert would_erase(house.memory, house.journal, [root], cascade=False).ids == (root,)


def test_a_look_counts_as_many_as_the_erasure_takes(house):
    root = house.left(SECRET)
    many = 1_001
    source = Source(Author.ENGINE)
    for one in house.memory.remember_many(Draft(f"fact {number}", source) for number in range(many)):
        house.memory.create_edge(Edge(one, root, CAME_FROM))
    would = would_erase(house.memory, house.journal, [root], cascade=True)
    assert len(would.ids) == many + 1
    assert len(house.erase(root).ids) == many + 1


def test_what_waits_for_a_decision_is_kept_and_what_was_decided_is_not(house):
    root = house.left(SECRET)
    sample = SampleRun()
    house.journal.append(sample.started())
    waiting, decided = house.content(f"{SECRET} 1"), house.content(f"{SECRET} 2")
    facts = {"run_id": "run-1", "session_id": "ses-1", "at": AT}
    rows = [
        {"path": "a.md", "status": "added", "new_sha256": waiting},
        {"path": "b.md", "status": "added", "new_sha256": decided},
    ]
    house.journal.append(ChangesCollected(**facts, changes=rows))
    house.journal.append(ChangesSettled(**facts, discarded=("b.md",)))
    house.stood("run-1", 1, "", (root,), f"{SECRET} 1", f"{SECRET} 2")
    house.erase(root)
    assert (house.contents / content_name(waiting)).exists()
    assert not (house.contents / content_name(decided)).exists()


def test_a_run_that_goes_on_and_knows_it_is_named_and_what_it_stores_then_can_be_erased_too(house):
    root = house.left(SECRET)
    sample = SampleRun()
    house.journal.append(sample.started())
    facts = {"run_id": "run-1", "session_id": "ses-1", "at": AT}
    seen = SeenMemory(root, "note", "quarantine", "engine")
    house.journal.append(MemoriesSeen(**facts, how="recalled", memories=(seen,)))
    assert would_erase(house.memory, house.journal, [root], cascade=True).going == ("run-1",)
    assert house.erase(root).going == ("run-1",)
    house.stood("run-1", 1, SECRET, (root,))
    house.journal.append(RunFinished(**facts, status="killed", duration=1.0))
    again = house.erase(root)
    assert (again.checkpoints, again.going) == (1, ())
    assert house.files_with(WORD) == []
    with pytest.raises(MemoryUnknown):
        house.erase(root)


def test_nothing_is_erased_when_one_of_several_is_not_there(house):
    root = house.left(SECRET)
    house.stood("run-1", 1, SECRET, (root,))
    with pytest.raises(MemoryUnknown):
        house.erase(root, "mem-none")
    assert house.memory.reference(root).text == SECRET
    assert checkpoints.latest(house.journal, "run-1") is not None


def test_circles_and_several_ids_of_one_family_are_erased_once(house):
    root, summary, lesson = grown(house)
    house.memory.create_edge(Edge(root, lesson, CAME_FROM))
    gone = house.erase(summary, root)
    assert sorted(gone.ids) == sorted((root, summary, lesson))
    assert house.files_with(WORD) == []
