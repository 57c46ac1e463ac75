"""Cells on their way into a notebook's file: what was proposed, over nothing newer, and nothing else."""

import json

import pytest

from kagura_kernel.domain.errors import NotebookUnwritable
from kagura_kernel.domain.notebook import TOP, CellEdit
from kagura_kernel.membrane import cells
from kagura_kernel.membrane.cells import CHANGED, GONE, NO_PLACE, write_file
from kagura_kernel.membrane.project import ProjectFiles


def code(ident, source, **more):
    return {
        "cell_type": "code",
        "id": ident,
        "metadata": {},
        "execution_count": 1,
        "outputs": [],
        "source": source,
    } | more


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "w.ipynb"
    shown = [{"output_type": "stream", "name": "stdout", "text": ["ü\n"]}]
    three = [code("a", ["a = 1\n", "b = 2"], outputs=shown), code("b", "b"), code("c", "c")]
    whole = {"cells": three, "metadata": {"kept": True}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole, indent=1), "utf-8")
    path.chmod(0o640)
    return path


def cells_of(path):
    return [(cell["id"], "".join(cell["source"])) for cell in json.loads(path.read_text("utf-8"))["cells"]]


def test_cells_are_inserted_edited_moved_and_deleted_and_all_else_stays(file):
    edits = [
        CellEdit("edit", "a", "code", "a = 2", ("a = 1\nb = 2",)),
        CellEdit("insert", "new", "markdown", "# Title\ntext", (), TOP),
        CellEdit("edit", "c", "code", "c", ("c",), "a"),
        CellEdit("delete", "b", "code", "", ("b",)),
    ]
    assert write_file(file, edits) == {}
    assert cells_of(file) == [("new", "# Title\ntext"), ("a", "a = 2"), ("c", "c")]
    whole = json.loads(file.read_text("utf-8"))
    assert whole["metadata"] == {"kept": True}
    assert whole["cells"][1]["outputs"][0]["text"] == ["ü\n"]
    assert file.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in file.parent.iterdir()] == ["w.ipynb"]


def test_what_is_not_as_it_was_is_left_and_told(file):
    edits = [
        CellEdit("edit", "a", "code", "mine", ("something else",)),
        CellEdit("edit", "z", "code", "mine", ("z",)),
        CellEdit("insert", "n", "code", "n", (), "z"),
        CellEdit("edit", "b", "code", "b = 2", ("old", "b")),
    ]
    assert write_file(file, edits) == {"a": CHANGED, "z": GONE, "n": NO_PLACE}
    assert cells_of(file) == [("a", "a = 1\nb = 2"), ("b", "b = 2"), ("c", "c")]


def test_a_file_that_is_written_at_the_same_moment_stays_as_it_was_written(file, monkeypatch):
    replace = ProjectFiles.replace

    def slow(self, *args, **options):
        file.write_text("{}")
        replace(self, *args, **options)

    monkeypatch.setattr(ProjectFiles, "replace", slow)
    assert write_file(file, [CellEdit("delete", "b", "code", "", ("b",))]) == {"b": CHANGED}
    assert file.read_text() == "{}"


ODD_CELL = '{{"nbformat": 4, "nbformat_minor": 5, "cells": [{}]}}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "format 4"),
        ('{"nbformat": 3, "worksheets": []}', "format 4"),
        ('{"nbformat": 4, "nbformat_minor": null, "cells": []}', "format 4"),
        ('{"nbformat": 4, "nbformat_minor": 5, "cells": {}}', "format 4"),
        (ODD_CELL.format("1"), "cell 1"),
        (ODD_CELL.format('{"cell_type": "code", "id": "b", "source": [1]}'), "cell 1"),
        (ODD_CELL.format('{"cell_type": "code", "id": ["b"], "source": ""}'), "cell 1"),
    ],
)
def test_what_is_no_notebook_is_left_alone_and_says_why(file, text, why):
    file.write_text(text)
    with pytest.raises(NotebookUnwritable, match=why):
        write_file(file, [CellEdit("insert", "n", "code", "n", (), TOP)])
    assert file.read_text() == text


def test_a_link_a_missing_file_and_one_that_is_too_large_are_refused(file, monkeypatch):
    link = file.with_name("link.ipynb")
    link.symlink_to(file.name)
    for path, why in ((link, "links are not followed"), (file.with_name("no.ipynb"), "no such file")):
        with pytest.raises(NotebookUnwritable, match=why):
            write_file(path, [CellEdit("delete", "b", "code", "", ("b",))])
    monkeypatch.setattr(cells, "LARGEST", 10)
    with pytest.raises(NotebookUnwritable, match="larger than"):
        write_file(file, [CellEdit("delete", "b", "code", "", ("b",))])


def test_cells_without_ids_get_the_ones_that_they_are_shown_by(file):
    whole = json.loads(file.read_text("utf-8"))
    for cell in whole["cells"]:
        del cell["id"]
    file.write_text(json.dumps(whole | {"nbformat_minor": 4}))
    edits = [CellEdit("edit", "cell-2", "code", "b = 2", ("b",)), CellEdit("insert", "n", "raw", "n", (), "cell-3")]
    assert write_file(file, edits) == {}
    assert cells_of(file) == [("cell-1", "a = 1\nb = 2"), ("cell-2", "b = 2"), ("cell-3", "c"), ("n", "n")]
    assert json.loads(file.read_text("utf-8"))["nbformat_minor"] == 5


def test_what_is_there_already_is_done_and_not_done_twice(file):
    edits = [
        CellEdit("insert", "n", "code", "n", (), "a"),
        CellEdit("edit", "c", "code", "c = 2", ("c",), TOP),
        CellEdit("delete", "b", "code", "", ("b",)),
    ]
    assert write_file(file, edits) == {}
    once = cells_of(file)
    assert write_file(file, edits) == {}
    assert cells_of(file) == once
    assert write_file(file, [CellEdit("insert", "n", "code", "other", (), "a")]) == {"n": CHANGED}


def test_a_cell_below_one_that_is_not_there_yet_stands_at_the_nearest_place_above(file):
    assert write_file(file, [CellEdit("insert", "second", "code", "2", (), "first", ("a",))]) == {}
    assert write_file(file, [CellEdit("insert", "first", "code", "1", (), "a")]) == {}
    assert [ident for ident, _ in cells_of(file)] == ["a", "first", "second", "b", "c"]


def test_half_a_character_is_written_so_that_it_can_be_read_again(file):
    assert write_file(file, [CellEdit("edit", "b", "code", "'\ud800'", ("b",))]) == {}
    assert cells_of(file)[1] == ("b", "'\ud800'")
