"""A person's whole way: a memory is kept, runs are shown it and leave their own, and then all of it is erased."""

import pytest

from kagura_kernel.domain.errors import BrainRefused
from kagura_kernel.domain.memory import OUTCOME, Author, Draft, Query, Source, Tier
from kagura_kernel.journal import checkpoints
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit

WORD = "quokkazanzibar"
"""A word that stands in what is erased, and nowhere else."""
ADA = {"by": "ada", "via": "command"}


def files_with(home, word):
    """Files in which it stands, logs and free pages included."""
    return sorted(path.name for path in home.rglob("*") if path.is_file() and word.encode() in path.read_bytes())


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def memory(home):
    store = SqliteMemory(home / "memory.sqlite3")
    yield store
    store.close()


@pytest.fixture
def cockpit(home, memory, tmp_path):
    """A cockpit whose brain asks for what is known of the launch, writes a note of its own, and fails."""
    (tmp_path / "project").mkdir()
    script = [
        Ask("recall", {"query": "launch"}),
        Ask("write_file", {"path": "notes.md", "content": "Nothing of it."}),
        Ask("remember", {"text": f"The date of {WORD} is not fixed."}),
        BrainRefused("fake", "the model hangs up"),
    ]
    found = fake_cockpit(home, backend=FakeBackend(), brains=[FakeBrain(script)], memory=memory)
    yield found
    found.close()


def test_after_a_cascade_no_file_of_the_data_directory_holds_a_word_of_it(cockpit, memory, home, tmp_path):
    draft = Draft(f"The launch is called {WORD}.", Source(Author.HUMAN), pinned=True)
    root = cockpit.memory.remember(draft, **ADA)
    other = cockpit.memory.remember(Draft("Sales are in EUR.", Source(Author.HUMAN)), **ADA)
    handle = cockpit.launch(RunRequest(task="Plan the day.", project=tmp_path / "project", brain="fake", headless=True))
    handle.result(60)
    left = memory.recall(Query("", k=50))
    assert {one.memory.type for one in left} >= {"note", OUTCOME}
    assert checkpoints.naming(cockpit.journal, [root.id])
    assert files_with(home, WORD)

    would = cockpit.memory.would_erase([root.id], cascade=True)
    gone = cockpit.memory.erase([root.id], cascade=True, **ADA)
    assert set(gone.ids) == set(would.ids)
    assert gone.checkpoints == would.checkpoints > 0
    assert gone.runs == (handle.run_id,)
    assert gone.going == ()
    assert files_with(home, WORD) == []
    assert memory.reference(other.id).tier is Tier.TRUSTED
    assert checkpoints.naming(cockpit.journal, [root.id]) == []
    cockpit.journal.verify()
