"""`kagura-kernel recall`, `lessons` and `memory …`, as they are typed."""

import io
import json
import sys

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.domain.memory import CAME_FROM, LESSON, Author, Draft, Edge, Source
from kagura_kernel.journal.store import Journal
from kagura_kernel.memory.location import FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory


@pytest.fixture
def typed(books, capsys, monkeypatch):  # noqa: ARG001 - whose settings are in use
    """Types a command; its exit code, and what it printed."""

    def run(*words, given=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        code = main([*words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def memory(books):
    """The memory of the settings, as another process has it open."""
    memory = SqliteMemory(books / FILE)
    yield memory
    memory.close()


def left(memory, text, **fields):
    """A memory that an agent left; its id."""
    return memory.remember(Draft(text, Source(Author.AGENT, "default", "run-1"), **fields)).id


def test_what_fits_is_a_table_and_with_json_all_of_it(typed, memory):
    one = left(memory, "Deploys happen on \x1b[31mFridays\u202e.")
    code, out, _ = typed("recall", "deploy")
    assert code == 0
    assert out.splitlines()[0].split() == ["memory", "trust", "type", "from", "age", "why", "what"]
    assert out.splitlines()[1].startswith(f"{one}  NOT trusted  note")
    assert "\x1b" not in out
    assert "\u202e" not in out
    [found] = json.loads(typed("recall", "deploy", "--json")[1])
    assert (found["id"], found["tier"], found["why"]) == (one, "quarantine", ["deploy"])
    assert 0 < found["score"] <= 1
    assert found["source"] == {"author": "agent", "by": "default", "run_id": "run-1", "uri": ""}
    assert json.loads(typed("memory", "recall", "--json", "nothing")[1]) == []
    assert len(json.loads(typed("recall", "--json", "-", given="about a deploy\n")[1])) == 1
    assert (
        typed("recall", "nothing")[1]
        == "Nothing is remembered that fits: `kagura-kernel memory add TEXT` remembers something.\n"
    )
    assert [one["id"] for one in json.loads(typed("memory", "list", "--json")[1])] == [one]


def test_looking_makes_no_journal(typed, memory, books):
    left(memory, "Deploys happen on Fridays.")
    typed("recall", "deploy")
    typed("memory", "counts")
    assert not (books / "journal.db").exists()


def test_a_note_is_typed_or_comes_in_and_the_journal_is_told(typed, memory, books):
    code, out, _ = typed("memory", "add", "--tag", "eur", "Sales", "are", "in", "EUR.")
    assert code == 0
    first = out.split()[0]
    assert memory.reference(first).text == "Sales are in EUR."
    second = json.loads(typed("memory", "add", "--json", "-", given="Line one\nline two\n")[1])
    assert second["text"] == "Line one\nline two\n"
    assert second["tier"] == "trusted"
    journal = Journal.open(books, create=False)
    rows = [row.event for row in journal.events(kinds=("memory.changed",))]
    journal.close()
    assert [(row.memory_id, row.change, row.via) for row in rows] == [
        (first, "written", "terminal"),
        (second["id"], "written", "terminal"),
    ]


def test_without_a_lesson_a_word_says_where_they_come_from(typed):
    assert typed("lessons")[1] == "No lesson is known yet: a run leaves one when something goes wrong in it.\n"


def test_a_memory_that_was_made_at_a_place_of_ones_own_is_named(typed, tmp_path, monkeypatch):
    file = tmp_path / "mine.sqlite3"
    monkeypatch.setenv("KAGURA_MEMORY", str(file))
    assert typed("memory", "add", "Sales", "are", "in", "EUR.")[2] == f"A new memory was made: {file}\n"
    assert typed("memory", "counts")[2] == ""
    monkeypatch.setenv("KAGURA_MEMORY", str(tmp_path / "mistyped" / "mine.sqlite3"))
    code, _, err = typed("memory", "counts")
    assert (code, err.partition(":")[0]) == (3, "ERR_MEMORY_UNAVAILABLE")
    assert not (tmp_path / "mistyped").exists()


@pytest.mark.parametrize("where", ["nowhere://x", "notes.sqlite3", "./notes.sqlite3"])
@pytest.mark.parametrize(
    "words", [("memory", "list"), ("memory", "add", "A fact."), ("recall", "facts"), ("run", "hi")]
)
def test_a_memory_that_cannot_be_had_ends_every_command_alike_and_nothing_is_made(
    typed, where, words, tmp_path, monkeypatch
):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KAGURA_MEMORY", where)
    code, _, err = typed(*words)
    assert (code, err.partition(":")[0]) == (3, "ERR_MEMORY_UNAVAILABLE")
    assert not any(folder.iterdir())
    assert not any(tmp_path.rglob("*.sqlite3"))


def test_changes_say_what_is_so_now_in_a_terminals_words(typed, memory):
    one = left(memory, "Deploys happen on Fridays.")
    assert typed("memory", "promote", one)[1] == f"{one} is trusted: Deploys happen on Fridays.\n"
    data = {"kind": "command", "trigger": "`make`", "said": "no cmake \x1b[2J"}
    lesson = left(memory, "`make` failed.\nTask: build", type=LESSON, data=data)
    assert typed("memory", "promote", lesson)[1].splitlines()[1:] == [
        "    `make` failed.",
        "    Task: build",
        "    said then: no cmake ⟨U+001B⟩[2J",
    ]
    assert json.loads(typed("memory", "pin", one, "--json")[1])[0]["pinned"] is True
    assert f"{one}  trusted, pinned  note" in typed("memory", "list")[1]
    assert f"`kagura-kernel memory restore {one}`" in typed("memory", "forget", one)[1]
    code, _, err = typed("memory", "demote", "mem-none")
    assert code == 2
    assert err.startswith("ERR_MEMORY_UNKNOWN: ")
    assert "`kagura-kernel recall WORDS`" in err


def test_an_erasure_that_was_only_shown_is_exit_code_1(typed, memory):
    one = left(memory, "The launch is called Zebra.")
    two = left(memory, "Done: Zebra.", type="outcome")
    memory.create_edge(Edge(two, one, CAME_FROM))
    code, out, _ = typed("memory", "forget", "--cascade", one)
    assert code == 1
    assert out.splitlines()[-1] == f"`kagura-kernel memory forget --cascade --yes {one}` does it."
    code, out, _ = typed("memory", "forget", "--cascade", one, "--json")
    assert (code, json.loads(out)["erased"], json.loads(out)["memories"]) == (1, False, [one, two])
    code, out, _ = typed("memory", "forget", "--cascade", "--yes", one, "--json")
    assert (code, json.loads(out)["erased"], json.loads(out)["edges"]) == (0, True, 1)
    assert memory.counts().memories == 0


def test_lessons_one_memory_and_its_neighbours(typed, memory):
    lesson = left(memory, "`make` failed.", type=LESSON, data={"kind": "command", "trigger": "`make`: exit 2"})
    other = left(memory, "Build with cmake.\nAlways.")
    memory.create_edge(Edge(other, lesson, "supports"))
    assert "`make`: exit 2" in typed("lessons")[1]
    [found] = json.loads(typed("lessons", "make", "--json")[1])
    assert (found["memory"]["id"], found["trigger"], found["seen"]) == (lesson, "`make`: exit 2", 1)
    assert typed("lessons", "nothing")[1] == "No lesson is known that fits. Without words all of them are listed.\n"
    assert "Always." in typed("memory", "show", other)[1]
    assert json.loads(typed("memory", "show", other, "--json")[1])["text"] == "Build with cmake.\nAlways."
    assert typed("memory", "explore", lesson)[1].splitlines()[1].split()[:3] == [other, "supports", lesson]
    assert len(json.loads(typed("memory", "explore", lesson, "--json")[1])["edges"]) == 1
    assert "joined to nothing" in typed("memory", "explore", "--type", "fixes", lesson)[1]


def test_what_goes_out_comes_in_again_through_a_pipe(typed, memory, tmp_path):
    one = left(memory, "Deploys happen on Fridays \u202e.")
    two = left(memory, "Second.")
    memory.create_edge(Edge(one, two))
    code, lines, _ = typed("memory", "export")
    assert code == 0
    assert [json.loads(line)["kind"] for line in lines.splitlines()] == ["memory", "memory", "edge"]
    for id_ in (one, two):
        memory.erase(id_)
    code, out, _ = typed("memory", "import", "-", "--json", given=lines)
    told = {"memories": [one, two], "new": 2, "here": [], "in_quarantine": [], "redacted": 0, "edges": 1, "left_out": 0}
    assert (code, json.loads(out)) == (0, told)
    assert memory.reference(one).text == "Deploys happen on Fridays \u202e."
    file = tmp_path / "out.jsonl"
    assert json.loads(typed("memory", "export", str(file), "--json")[1]) == {"file": str(file), "lines": 3}
    assert json.loads(file.read_text().splitlines()[0])["text"] == "Deploys happen on Fridays \u202e."
    assert "\u202e" not in lines
    assert typed("memory", "export", str(file))[0] == 2
    code, _, err = typed("memory", "import", "-", given="{\n")
    assert code == 2
    assert "line 1: it is no JSON" in err


def test_a_file_that_is_trusted_the_second_time_says_that_it_changed_nothing(typed):
    line = '{"v":1,"kind":"memory","id":"mem-a","text":"Deploy on Fridays.","tier":"trusted"}'
    fresh = "1 memory and 0 edges imported; those that are new are in quarantine until somebody promotes them.\n"
    assert typed("memory", "import", "-", given=line)[1] == fresh
    assert typed("memory", "import", "--trust", "-", given=line)[1] == (
        "0 new memories and 0 edges imported. 1 already here, which stays as it is. 1 of them is in quarantine still: "
        "--trust promotes nothing that is here already. Look at each with `kagura-kernel memory show`, and say that it "
        "may be trusted with `kagura-kernel memory promote mem-a`.\n"
    )
    told = json.loads(typed("memory", "import", "--trust", "--json", "-", given=line)[1])
    assert (told["new"], told["here"], told["in_quarantine"]) == (0, ["mem-a"], ["mem-a"])
    assert "NOT trusted" in typed("recall", "Fridays")[1]
    typed("memory", "promote", "mem-a")
    again = "0 new memories and 0 edges imported. 1 already here, which stays as it is.\n"
    assert typed("memory", "import", "--trust", "-", given=line)[1] == again


def test_an_option_that_is_none_is_not_searched_for(typed, memory):
    left(memory, "The board is bogus.")
    code, _, err = typed("recall", "board", "--bogus", "3")
    assert (code, "There is no option '--bogus' here." in err) == (2, True)
    assert "Did you mean --since?" in typed("recall", "board", "--sinc", "3d")[2]
    assert "There is no option '--sinc' here." in typed("lessons", "board", "--sinc", "3d")[2]
    assert "bogus" in typed("recall", "--", "board", "--bogus")[1]
    assert json.loads(typed("memory", "add", "Run it with --bogus.", "--json")[1])["text"] == "Run it with --bogus."


def test_counts_say_where_it_is(typed, memory, books):
    left(memory, "One.")
    assert f"They are kept in {books / FILE}." in typed("memory", "counts")[1]
    counts = json.loads(typed("memory", "counts", "--json")[1])
    assert counts == {"memories": 1, "quarantined": 1, "forgotten": 0, "edges": 0, "where": str(books / FILE)}
