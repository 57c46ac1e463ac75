"""`%kagura recall`, `lessons` and `memory …`: what each shows, and what its value is."""

from types import SimpleNamespace

import pytest

import kagura_kernel
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnknown
from kagura_kernel.domain.memory import CAME_FROM, LESSON, Author, Draft, Edge, Source, Tier
from kagura_kernel.jupyter.memories import MemoryFrame
from kagura_kernel.jupyter.steering import run_line
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.memory import FakeMemory
from tests.support.steering import steer


@pytest.fixture
def memory():
    return FakeMemory()


@pytest.fixture
def cockpit(tmp_path, memory, monkeypatch):
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found = fake_cockpit(tmp_path / "home", backend=FakeBackend(), memory=memory)
    yield found
    found.close()


@pytest.fixture
def asked(cockpit, capsys):
    """Carries a line out; its value, and what it said."""

    def ask(line):
        value = steer(cockpit, SimpleNamespace(), line)
        return value, capsys.readouterr().out

    return ask


def left(memory, text, **fields):
    """A memory that an agent left; its id."""
    return memory.remember(Draft(text, Source(Author.AGENT, "default", "run-1"), **fields)).id


def test_recall_is_a_table_of_what_fits(asked, memory):
    one = left(memory, "Deploys happen on Fridays.", tags=("ops",))
    two = left(memory, "A deploy needs a migration.", tier=Tier.TRUSTED, type="decision")
    left(memory, "Sales are in EUR.")
    table, said = asked("recall deploy")
    assert isinstance(table, MemoryFrame)
    assert set(table.index) == {one, two}
    assert said == ""
    assert list(asked("recall deploy --tier trusted")[0].index) == [two]
    assert list(asked("recall deploy --tag ops,other")[0].index) == [one]
    assert list(asked("recall deploy --type note --k 1")[0].index) == [one]
    assert asked("recall deploy --since 2999-01-01")[0].empty
    assert asked("recall deploy --scope project:other")[0].empty
    assert len(asked("recall deploy --scope everybody")[0]) == 2
    with pytest.raises(UsageError, match="--since"):
        asked("recall deploy --since soon")
    with pytest.raises(MemoryInvalid, match="k is not between"):
        asked("recall deploy --k 5000")


def test_the_newest_are_listed_without_a_score(asked, memory):
    one = left(memory, "First.")
    two = left(memory, "Second.", tier=Tier.TRUSTED)
    assert set(asked("memory list")[0].index) == {one, two}
    table, _ = asked("memory list --tier quarantine")
    assert list(table.index) == [one]
    assert table["score"].isna().all()


def test_a_list_that_is_cut_says_how_many_more_there_are_and_how_to_see_them(asked, memory):
    for number in range(3):
        left(memory, f"Number {number}.", tags=("odd",) if number % 2 else ("even",), type=LESSON)
    assert asked("memory list --k 1")[1] == "2 more are not shown; `--k 3` shows them too.\n"
    assert asked("memory list --tag even --k 1")[1] == "1 more is not shown; `--k 2` shows them too.\n"
    assert asked("lessons --k 1")[1].startswith("2 more are not shown; ")
    for line in ("memory list", "memory list --tag even", "lessons"):
        assert asked(line)[1] == ""
    # The best of what fits is no list that was cut.
    assert asked("recall number --k 1")[1] == ""


def test_a_program_asks_by_a_function(cockpit, memory, monkeypatch):
    monkeypatch.setattr("kagura_kernel.jupyter.memories.get_cockpit", lambda: cockpit)
    one = left(memory, "Deploys happen on Fridays.", tags=("ops",))
    assert list(kagura_kernel.recall("deploy", tag="ops", type=["note", "fix"], tier="quarantine").index) == [one]
    assert kagura_kernel.recall("deploy", since="7d").shape[0] == 1
    with pytest.raises(UsageError, match=r"^since takes an age"):
        kagura_kernel.recall("deploy", since="bogus")
    assert kagura_kernel.recall("", k=1)["score"].isna().all()
    with pytest.raises(UsageError, match="no tier"):
        kagura_kernel.recall("deploy", tier="holy")


def test_a_note_is_kept_as_it_was_typed_or_the_line_says_otherwise(asked, memory):
    _, said = asked("memory add --tag eur,sales --pin --scope project:shop Sales are in EUR.")
    memory_id = said.split()[0]
    kept = memory.reference(memory_id)
    assert (kept.text, kept.tags, kept.pinned, kept.scope) == (
        "Sales are in EUR.",
        ("eur", "sales"),
        True,
        "project:shop",
    )
    assert (kept.tier, kept.source.author) == (Tier.TRUSTED, Author.HUMAN)
    assert said == f"{memory_id} is remembered: Sales are in EUR.\n"
    soon = asked("memory add --expires 30d -- --odd text")[1].split()[0]
    assert memory.reference(soon).text == "--odd text"
    assert 29 <= (memory.reference(soon).expires_at - memory.reference(soon).at).days <= 30
    for when in ("2001-01-01", "soon"):
        with pytest.raises(UsageError, match="--expires"):
            asked(f"memory add --expires {when} Text")


def test_changes_say_what_is_so_now(asked, memory):
    one = left(memory, "Deploys happen on Fridays.")
    assert asked(f"memory pin {one}")[1].startswith(f"{one} is pinned; no run is shown it before it is promoted: Dep")
    assert asked(f"memory promote {one}")[1] == f"{one} is trusted: Deploys happen on Fridays.\n"
    assert asked(f"memory pin {one}")[1] == f"{one} is pinned: Deploys happen on Fridays.\n"
    assert asked(f"memory demote {one}")[1].startswith(f"{one} is in quarantine")
    assert f"until `%kagura memory restore {one}`" in asked(f"memory forget {one}")[1]
    assert asked(f"memory restore {one}")[1].startswith(f"{one} is remembered again")
    with pytest.raises(MemoryUnknown, match="%kagura recall"):
        asked("memory promote mem-none")


def test_an_erasure_is_shown_first_and_done_when_it_is_said_so(asked, memory):
    one = left(memory, "The launch is called Zebra.")
    two = left(memory, "Done: Zebra.", type="outcome")
    memory.create_edge(Edge(two, one, CAME_FROM))
    _, said = asked(f"memory forget --cascade {one}")
    assert said.splitlines()[0] == "This would erase 2 memories, 1 edge, 0 checkpoints (of run-1), for good:"
    assert f"  {two}  outcome, in quarantine, came from it: Done: Zebra." in said
    command = f"memory forget --cascade --yes {one}"
    assert said.splitlines()[-1] == f"`%kagura {command}` does it."
    assert memory.counts().memories == 2
    assert asked(command)[1].startswith("Erased: 2 memories, 1 edge, 0 checkpoints (of run-1). The journal keeps")
    assert memory.counts().memories == 0
    three = left(memory, "Another.")
    assert "--erase --yes" in asked(f"memory forget --erase {three}")[1]
    assert memory.reference(three).forgotten_at is None


def test_lessons_and_neighbours_are_tables(asked, memory):
    lesson = left(memory, "`make` failed.", type=LESSON, data={"kind": "command", "trigger": "`make`: exit 2"})
    other = left(memory, "Build with cmake.")
    memory.create_edge(Edge(other, lesson, "supports"))
    assert list(asked("lessons make")[0].index) == [lesson]
    assert list(asked("lessons")[0]["trigger"]) == ["`make`: exit 2"]
    table, _ = asked(f"memory explore {lesson}")
    assert [(name, row["how"]) for name, row in table.iterrows()] == [(other, "is supported by")]
    assert asked(f"memory explore --type prevents {lesson}")[0].empty


@pytest.mark.parametrize(("line", "why"), [("lessons", "known yet"), ("lessons make", "known that fits")])
def test_no_lessons_are_told_once_and_as_lessons(asked, line, why):
    table, said = asked(line)
    assert said == ""
    for shown in (repr(table), table._repr_html_()):
        assert f"No lesson is {why}" in shown
        assert "remembered" not in shown


def test_one_memory_is_a_value_that_shows_all_of_it(asked, memory):
    one = left(memory, "First line.\nSecond line \u202e.", tags=("ops",))
    value, _ = asked(f"memory show {one}")
    assert value.memory.id == one
    assert "Second line ⟨U+202E⟩." in repr(value)


def test_memories_go_out_to_a_file_and_come_in_from_one(asked, memory, tmp_path):
    one = left(memory, "Deploys happen on Fridays.")
    assert asked("memory export out.jsonl")[1] == "out.jsonl was written: 1 lines.\n"
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="is there already"):
        asked("memory export out.jsonl")
    with pytest.raises(UsageError, match="cannot be written"):
        asked("memory export nowhere/out.jsonl")
    assert sorted(path.name for path in tmp_path.glob("*.jsonl*")) == ["out.jsonl"]
    assert list(tmp_path.glob(".out*")) == []
    memory.erase(one)
    assert asked("memory import out.jsonl")[1].startswith("1 memory and 0 edges imported; those that are new are in")
    assert memory.reference(one).text == "Deploys happen on Fridays."
    (tmp_path / "odd.jsonl").write_bytes(b"\xff\xfe")
    for name, why in (("odd.jsonl", "no text"), ("none.jsonl", "cannot be read")):
        with pytest.raises(UsageError, match=why):
            asked(f"memory import {name}")


def test_counts_say_how_much_there_is_and_where(asked, memory):
    left(memory, "One.")
    said = asked("memory counts")[1]
    assert said == "1 memory, 1 of them in quarantine; 0 forgotten; 0 edges. They are kept in a dictionary.\n"


def test_help_needs_no_memory(capsys):
    run_line(SimpleNamespace(), "help recall")
    assert "%kagura recall" in capsys.readouterr().out
