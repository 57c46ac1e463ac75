import json
import sqlite3
from contextlib import closing
from pathlib import Path

import nbformat
import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.domain.errors import JournalTampered
from kagura_kernel.journal.store import Journal
from tests.support.journals import touch
from tests.support.sample_run import SampleRun


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal with three rows, in use by the settings."""
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path))
    monkeypatch.delenv("KAGURA_JOURNAL_URL", raising=False)
    journal = Journal.open(tmp_path)
    for number in range(3):
        journal.append(SampleRun().noted(str(number)))
    journal.close()
    return tmp_path


def tamper(home: Path) -> None:
    touch(home / "journal.db", "DELETE FROM journal_events WHERE seq = 2")


def test_a_journal_that_holds_says_how_many_rows_it_checked(home, prints):
    said = prints("journal", "verify")
    assert f"{home / 'journal.db'}: 3 rows, all as they were written." in said
    assert "Last hash " in said
    found = json.loads(prints("journal", "verify", "--json"))
    assert (found["ok"], found["rows"], found["where"]) == (True, 3, str(home / "journal.db"))
    assert len(found["last_hash"]) == 64


def test_a_journal_that_does_not_hold_fails_and_names_the_row(home, capsys, prints):
    tamper(home)
    assert main(["journal", "verify"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ERR_JOURNAL_TAMPERED: ")
    assert "row 2: it is missing" in said.err
    found = json.loads(prints("journal", "verify", "--json", code=2))
    assert (found["ok"], found["seq"], found["code"]) == (False, 2, "ERR_JOURNAL_TAMPERED")
    assert "missing" in found["why"]


@pytest.mark.usefixtures("home")
def test_another_directory_can_be_named(tmp_path_factory, prints):
    other = tmp_path_factory.mktemp("other")
    Journal.open(other).close()
    assert "0 rows" in prints("journal", "verify", "--dir", str(other))


def test_where_there_is_no_journal_none_is_made(tmp_path, refuses):
    assert "ERR_USAGE: There is no journal" in refuses("journal", "verify", "--dir", str(tmp_path / "nowhere"))
    assert list(tmp_path.iterdir()) == []


def test_the_path_is_that_of_the_file_whether_it_is_there_or_not(home, prints):
    assert main(["journal", "path"]) == 0
    assert prints("journal", "path", "--dir", "/nowhere").split() == [str(home / "journal.db"), "/nowhere/journal.db"]


@pytest.mark.usefixtures("home")
def test_a_server_is_shown_without_its_password(monkeypatch, prints):
    monkeypatch.setenv("KAGURA_JOURNAL_URL", "postgresql://ada:hunter2@db/books")
    assert prints("journal", "path") == "postgresql://ada@db/books\n"


@pytest.mark.usefixtures("home")
def test_a_url_in_the_configuration_file_is_honoured(tmp_path, monkeypatch, prints):
    (tmp_path / "settings.toml").write_text('journal_url = "postgresql://db/books"\n')
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "settings.toml"))
    assert prints("journal", "path") == "postgresql://db/books\n"


def test_a_url_of_something_else_is_a_wrong_configuration(refuses):
    assert refuses("journal", "verify", "--url", "mysql://db/x").startswith("ERR_CONFIGURATION: ")
    assert refuses("journal", "verify", "--url", "ada@db/x").startswith("ERR_USAGE: --url takes a PostgreSQL journal")


@pytest.mark.parametrize("words", [["journal"], ["journal", "burn"], ["journal", "verify", "--dir", "x", "--url", "y"]])
def test_wrong_words_are_wrong_usage(words, capsys):
    assert main(words) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith(("ERR_USAGE: ", "ERR_UNKNOWN_NAME: "))
    assert "verify" in said.err


def forge(home: Path) -> None:
    run = SampleRun()
    journal = Journal.open(home)
    for event in (run.started(), run.asked(), run.decided(verdict="deny"), run.finished()):
        journal.append(event)
    journal.close()
    touch(home / "journal.db", "UPDATE journal_approvals SET verdict = 'allow'")


def test_a_table_that_was_forged_is_named_and_made_anew(home, prints, refuses):
    forge(home)
    said = refuses("journal", "verify")
    assert said.startswith("ERR_JOURNAL_TAMPERED: ")
    assert "journal_approvals at app-1" in said
    assert "`kagura-kernel journal rebuild`" in said
    found = json.loads(prints("journal", "verify", "--json", code=2))
    assert (found["ok"], found["table"], found["id"]) == (False, "journal_approvals", "app-1")
    assert "made anew from its rows" in prints("journal", "rebuild")
    assert main(["journal", "verify"]) == 0


def test_nothing_is_made_anew_from_rows_that_do_not_hold(home, prints):
    forge(home)
    tamper(home)
    found = json.loads(prints("journal", "rebuild", "--json", code=2))
    assert (found["ok"], found["seq"], found["table"]) == (False, 2, "")
    with closing(sqlite3.connect(home / "journal.db")) as file, file:
        assert file.execute("SELECT verdict FROM journal_approvals").fetchall() == [("allow",)]
    file.close()


def test_a_copy_is_made_and_says_how_to_check_it(home, tmp_path_factory, prints, refuses):
    goal = tmp_path_factory.mktemp("copies") / "monday"
    assert f"a copy of {home / 'journal.db'}" in prints("journal", "backup", str(goal))
    assert main(["journal", "verify", "--dir", str(goal)]) == 0
    assert "ERR_USAGE: There is a journal at" in refuses("journal", "backup", str(goal))


def test_where_it_lies_and_where_a_copy_lies_is_told_to_programs_too(home, tmp_path, prints):
    assert json.loads(prints("journal", "path", "--json")) == {"journal": str(home / "journal.db")}
    told = json.loads(prints("journal", "backup", "--json", str(tmp_path / "copy")))
    assert (told["copy"], told["of"]) == (str(tmp_path / "copy" / "journal.db"), str(home / "journal.db"))
    assert (told["ok"], told["rows"]) == (True, 3)


def test_a_journal_that_was_touched_is_copied_all_the_same_and_the_copy_is_told_of(
    home, tmp_path_factory, capsys, prints
):
    tamper(home)
    goal = tmp_path_factory.mktemp("copies") / "evidence"
    assert main(["journal", "backup", str(goal)]) == 1
    said = capsys.readouterr()
    assert f"{goal / 'journal.db'}: a copy of {home / 'journal.db'}, which does not hold." in said.out
    assert said.err.startswith("ERR_JOURNAL_TAMPERED: ")
    assert "row 2: it is missing" in said.err
    assert [one.name for one in goal.iterdir()] == ["journal.db"]
    told = json.loads(prints("journal", "backup", "--json", str(goal.with_name("again")), code=1))
    assert (told["ok"], told["seq"], told["code"]) == (False, 2, "ERR_JOURNAL_TAMPERED")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM journal_events WHERE seq = 3",
        "UPDATE journal_events SET body = replace(body, '1', '2') WHERE seq = 2",
        "UPDATE journal_head SET rows = 2",
        "DELETE FROM journal_head",
    ],
)
def test_nothing_is_run_on_a_journal_whose_newest_rows_were_touched(home, sql):
    touch(home / "journal.db", sql)
    with pytest.raises(JournalTampered):
        Journal.open(home)
    # Looking at what is there stays possible.
    reading = Journal.open(home, create=False)
    assert reading.last_seq() >= 2
    reading.close()


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    cells = [nbformat.v4.new_code_cell("Count the rows.")]
    metadata = {"kernelspec": {"name": "kagura", "display_name": "Kagura"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), tmp_path / "a.ipynb")
    return tmp_path / "a.ipynb"


def test_a_notebook_is_written_beside_itself_and_never_over_another_one(notebook, prints, refuses):
    target = notebook.with_name("a-python.ipynb")
    assert prints("export", str(notebook)) == f"{target} was written.\n"
    assert [cell.source for cell in nbformat.read(target, 4).cells][-1] == "%%kagura\nCount the rows."
    assert refuses("export", str(notebook)).startswith("ERR_USAGE: ")
    assert main(["export", "--force", str(notebook)]) == 0


def test_what_was_written_is_told_to_programs_too(notebook, prints):
    assert json.loads(prints("export", "--json", str(notebook))) == {
        "written": str(notebook.with_name("a-python.ipynb"))
    }


def test_a_notebook_that_is_not_there_is_wrong_usage(tmp_path, refuses):
    assert refuses("export", str(tmp_path / "b.ipynb"), "-o", str(tmp_path / "c.ipynb")).startswith("ERR_USAGE: ")
