"""Notebooks that were renamed, moved and deleted, on SQLite and on PostgreSQL."""

import pytest

from kagura_kernel.journal.moves import Move, called_now, moves, record_move
from kagura_kernel.journal.pages import run_page
from kagura_kernel.journal.rows import Here
from kagura_kernel.journal.spending import Spending, spent
from kagura_kernel.journal.views import notebook_session, runs
from tests.support.sample_run import SampleRun

UNTITLED, SALES = "/books/Untitled.ipynb", "/books/sales.ipynb"


def ran(journal, number: int, notebook: str, kernel_id: str = "") -> str:
    """A run that cost as many dollars as its number."""
    told = SampleRun(f"run-{number}", f"ses-{number}")
    journal.append(told.started(notebook=notebook, kernel_id=kernel_id))
    journal.append(told.finished(computed_usd=float(number)))
    return told.run_id


def of(journal, notebook: str) -> list[str]:
    return [row.run_id for row in run_page(journal, notebook=notebook).items]


def test_runs_go_with_a_notebook_that_is_renamed_and_not_with_the_next_one_of_its_name(journal):
    ran(journal, 1, UNTITLED)
    record_move(journal, Move(UNTITLED, SALES, ()))
    ran(journal, 2, UNTITLED)
    ran(journal, 3, SALES)
    assert of(journal, SALES) == ["run-3", "run-1"]
    assert of(journal, UNTITLED) == ["run-2"]
    assert spent(journal, notebook=SALES) == Spending(4.0, 2, 0)
    assert [row.run_id for row in runs(journal, here=Here("/", SALES))] == ["run-3", "run-1"]
    journal.verify()


def test_a_conversation_goes_with_its_notebook(journal):
    ran(journal, 1, UNTITLED)
    record_move(journal, Move(UNTITLED, SALES, ()))
    assert (notebook_session(journal, SALES), notebook_session(journal, UNTITLED)) == ("ses-1", "")


def test_a_new_notebook_has_nothing_of_a_deleted_one(journal):
    ran(journal, 1, UNTITLED)
    record_move(journal, Move(UNTITLED, "", ()))
    assert (of(journal, UNTITLED), notebook_session(journal, UNTITLED)) == ([], "")
    ran(journal, 2, UNTITLED)
    assert of(journal, UNTITLED) == ["run-2"]


def test_a_folder_takes_its_notebooks_along_there_and_back(journal):
    ran(journal, 1, "/books/a/one.ipynb")
    ran(journal, 2, "/books/ab/one.ipynb")
    record_move(journal, Move("/books/a", "/books/a%/b", ()))
    assert of(journal, "/books/a%/b/one.ipynb") == ["run-1"]
    assert of(journal, "/books/ab/one.ipynb") == ["run-2"]
    record_move(journal, Move("/books/a%/b/one.ipynb", "/books/a/one.ipynb", ()))
    assert of(journal, "/books/a/one.ipynb") == ["run-1"]
    assert of(journal, "/books/a%/b/one.ipynb") == []


def test_what_concerns_nobody_is_not_kept(journal):
    ran(journal, 1, "/books/Untitled1.ipynb")
    record_move(journal, Move("/books/notes.txt", "/books/more.txt", ()))
    record_move(journal, Move("/books/Untitled", "/books/other", ()))
    record_move(journal, Move(UNTITLED, "", ("kernel-1",)))
    assert moves(journal) == []
    record_move(journal, Move(UNTITLED, SALES, ("kernel-1",)))
    assert [move[:3] for move in moves(journal)] == [(UNTITLED, SALES, ("kernel-1",))]


@pytest.mark.parametrize(
    ("kernel_id", "name"),
    [("kernel-1", "/else/sales.ipynb"), ("kernel-2", UNTITLED), ("kernel-3", SALES.replace("books", "else"))],
)
def test_a_kernel_follows_the_moves_it_went_along_with(kernel_id, name):
    known = [
        Move(UNTITLED, SALES, ("kernel-1",), 1),
        Move("/books", "/else", ("kernel-1", "kernel-3"), 2),
        Move("/else/sales.ipynb", "", ("kernel-1",), 3),
    ]
    assert called_now(known, SALES if kernel_id == "kernel-3" else UNTITLED, kernel_id=kernel_id) == name


def test_a_list_names_notebooks_as_they_are_called_now(journal):
    ran(journal, 1, UNTITLED)
    record_move(journal, Move(UNTITLED, SALES, ()))
    ran(journal, 2, UNTITLED)
    assert [row.notebook for row in run_page(journal).items] == [UNTITLED, SALES]
